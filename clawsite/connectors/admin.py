"""Loads the admin pages of all connectors, for Django. The modules register themselves."""

from clawsite.connectors.apps import load_modules

load_modules("admin")
