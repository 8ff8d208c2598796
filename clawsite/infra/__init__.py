"""Infrastructure that knows nothing about the layers above."""
