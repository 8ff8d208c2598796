"""Start and supervise the processes of `claw serve`."""
