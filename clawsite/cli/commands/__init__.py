"""One module per `claw` command."""
