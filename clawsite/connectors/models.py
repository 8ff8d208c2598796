"""Loads the tables of all connectors, for Django."""

from clawsite.connectors.apps import load_modules

load_modules("models")
