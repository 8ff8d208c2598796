"""Migrations follow the schema, not its texts."""

from typing import Any

from django.db import models
from django.db.migrations.state import ModelState, ProjectState

from clawsite.infra.autodetector import SchemaAutodetector


def state(label: str, *, length: int = 10, permissions: tuple[tuple[str, str], ...] = ()) -> ProjectState:
    field = models.CharField(label, max_length=length, help_text=label, choices=[("a", label)])
    options: dict[str, Any] = {"verbose_name": label, "verbose_name_plural": label, "permissions": permissions}
    project = ProjectState()
    project.add_model(ModelState("shop", "Item", [("id", models.AutoField(primary_key=True)), ("name", field)], options))
    return project


def operations(before: ProjectState, after: ProjectState) -> list[str]:
    detector = SchemaAutodetector(before, after)
    detected = detector._detect_changes()
    return [type(operation).__name__ for migrations in detected.values() for each in migrations for operation in each.operations]


def test_changed_texts_need_no_migration() -> None:
    assert operations(state("old", permissions=(("sell", "Sell"),)), state("new", permissions=(("sell", "Sell it"),))) == []


def test_changed_schema_needs_a_migration() -> None:
    assert operations(state("old"), state("new", length=20)) == ["AlterField"]
    assert operations(state("old"), state("new", permissions=(("sell", "Sell"),))) == ["AlterModelOptions"]
