"""What the arguments of known programs mean."""
