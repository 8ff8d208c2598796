"""What a session has when it says nothing else: the model of the default agent."""

from agents.selectors import find_agent, model_of
from clawsite.infra.errors import NotFound
from sessions_app.keys import DEFAULT_AGENT


def default_model() -> str:
    try:
        return model_of(find_agent(DEFAULT_AGENT))
    except NotFound:  # an operator may switch it off
        return ""
