from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = _("Agents")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from agents.memory.table import install_trigger
        from agents.models import install_main_agent
        from agents.selectors import agent_exists
        from tools_app.policy_store import known_agents

        post_migrate.connect(install_main_agent, sender=self)
        post_migrate.connect(install_trigger, sender=self)
        known_agents.set_agent_lookup(agent_exists)
