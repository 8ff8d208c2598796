"""Prevent deletion of a group that a rule references: without the group, the rule would be open to every approver.

Tables that reference groups are found through the relations. Memberships and permissions are deleted with the group.
"""

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model, ProtectedError
from django.db.models.signals import pre_delete
from django.utils.translation import gettext as _

from clawsite.accounts.models import User


def connect_signals() -> None:
    pre_delete.connect(_prevent_deletion, sender=Group, dispatch_uid="named groups")


def list_references(group: Group) -> Iterator[Model]:
    """Yield rows of other tables that reference a group, except its members."""
    for relation in Group._meta.related_objects:
        if relation.many_to_many and relation.related_model is not User:
            yield from relation.related_model._default_manager.filter(**{relation.field.name: group})


def _prevent_deletion(instance: Group, **_signal: Any) -> None:
    rows = set(list_references(instance))
    if rows:
        names = ", ".join(sorted(f"{row._meta.verbose_name} {row}" for row in rows))
        raise ProtectedError(
            _("Group %(group)s is still used by: %(rows)s. Remove it there first.") % {"group": instance, "rows": names}, rows
        )
