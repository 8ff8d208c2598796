"""Start, watch and end the processes of commands."""
