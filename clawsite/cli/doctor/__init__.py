"""The checks of `claw doctor`."""
