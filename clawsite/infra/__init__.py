"""Infrastructure without dependencies on the layers above."""
