"""Detect database schema changes but ignore changed texts, so that rewording a label needs no migration."""

from typing import Any

from django.db import models
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.state import ModelState, ProjectState

NOT_IN_SCHEMA = {"verbose_name", "help_text", "choices", "validators"}  # field arguments
MODEL_TEXTS = ("verbose_name", "verbose_name_plural")


class SchemaAutodetector(MigrationAutodetector):
    """Labels, help texts, choices and validators come from the models, never from migrations."""

    def __init__(self, from_state: ProjectState, to_state: ProjectState, questioner: Any = None) -> None:
        for key, model in to_state.models.items():
            if key in from_state.models:
                _copy_texts(from_state.models[key], model)
        super().__init__(from_state, to_state, questioner)

    def deep_deconstruct(self, obj: Any) -> Any:
        deconstructed = super().deep_deconstruct(obj)
        if not isinstance(obj, models.Field):
            return deconstructed
        path, arguments, keywords = deconstructed
        return path, arguments, {name: value for name, value in keywords.items() if name not in NOT_IN_SCHEMA}


def _copy_texts(old: ModelState, new: ModelState) -> None:
    for name in MODEL_TEXTS:
        new.options.pop(name, None)
        if name in old.options:
            new.options[name] = old.options[name]
    if _codenames(old) == _codenames(new) and "permissions" in old.options:
        new.options["permissions"] = old.options["permissions"]


def _codenames(model: ModelState) -> list[str]:
    return [codename for codename, _name in model.options.get("permissions", ())]
