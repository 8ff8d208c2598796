"""List the models users can choose and match what they type."""

import difflib
import os

from django.utils.translation import gettext as _

from agents.llm.catalog import ModelRow, list_available_models
from agents.selectors import list_agents
from clawsite.infra.errors import InvalidRequest

MAX_SUGGESTIONS = 3


def list_offered_models() -> list[ModelRow]:
    """Return models in use, models with an API key, and models that another key would add."""
    return list_available_models(os.environ, [agent.model for agent in list_agents() if agent.model])


def find_model(typed: str) -> ModelRow | None:
    """Find a model by its full ID, or by its name alone if only one provider has it."""
    wanted = typed.strip().lower()
    rows = list_offered_models()
    named = [row for row in rows if row["name"].lower() == wanted]
    usable = [row for row in named if row["available"]] or named
    return next((row for row in rows if row["id"].lower() == wanted), usable[0] if len(usable) == 1 else None)


def choose_model(typed: str) -> str:
    """Return the ID of the model a user typed, or raise InvalidRequest with suggestions."""
    row = find_model(typed)
    if row is None:
        ids = [row["id"] for row in list_offered_models() if row["available"]]
        near = difflib.get_close_matches(typed.lower(), ids, MAX_SUGGESTIONS, cutoff=0.4) or ids[:MAX_SUGGESTIONS]
        raise InvalidRequest(
            _("Unknown model “%(model)s”. Try for example: %(near)s.") % {"model": typed, "near": ", ".join(near)},
            details={"code": "UNKNOWN_MODEL", "model": typed, "near": near},
        )
    if not row["available"]:
        raise InvalidRequest(
            _("The model %(model)s can’t be used: its provider’s API key is missing.") % {"model": row["id"]},
            details={"code": "MODEL_WITHOUT_KEY", "model": row["id"]},
        )
    return row["id"]


def is_provider(name: str) -> bool:
    return any(row["provider"] == name for row in list_offered_models())
