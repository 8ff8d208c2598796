"""The nine policy layers. Pure."""
