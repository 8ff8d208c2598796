"""The command line, `claw`."""
