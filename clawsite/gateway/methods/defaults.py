"""Session defaults: the model of the default agent."""

from agents.selectors import choose_model_name, find_agent
from clawsite.infra.errors import NotFound
from sessions_app.keys import DEFAULT_AGENT


def get_session_default_model() -> str:
    try:
        return choose_model_name(find_agent(DEFAULT_AGENT))
    except NotFound:  # an operator may have disabled it
        return ""
