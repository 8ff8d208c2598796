"""What a web process runs for connectors. The modules register themselves."""

from clawsite.connectors.apps import load_modules

load_modules("web_tasks")
