"""A group that a rule names is not deleted: the rule would lose the name and be open to everybody who may approve.

Which tables name groups is read from the relations, so that nothing here knows them. Membership and rights go with a group.
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
    """What of other tables points to a group, besides its members."""
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
