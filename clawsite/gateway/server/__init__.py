"""Accept sockets, dispatch requests to methods, publish the schema."""
