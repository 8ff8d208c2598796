"""Dashboard and sidebar of the admin."""
