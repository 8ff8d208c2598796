"""A webhook that acts for a person needs that person's own yes: it runs with their sessions and their agents' tools.

Whoever makes a webhook for themselves has said it by that. For another person's account it waits, and nobody is answered, until
they agree on their account page; after every change by somebody else it waits again (gateway.hooks.rows).
"""

import datetime as dt

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.connectors.webhook.models import Hook
from clawsite.connectors.webhook.service import record_change
from clawsite.infra import clock
from clawsite.infra.errors import Conflict, NotFound


def list_webhooks_for(user: User) -> list[Hook]:
    """Those that act for somebody, or want to; not those that are off and never got their yes."""
    return [hook for hook in Hook.objects.filter(owner=user).order_by("slug") if hook.enabled or hook.agreed_at]


@transaction.atomic
def give_consent(pk: int, *, by: User, seen: dt.datetime | None) -> Hook:
    """Say yes to the webhook as it was when `by` looked at it (`updated_at`)."""
    hook = _find_own(pk, by)
    if hook.updated_at != seen:
        raise Conflict("the webhook was changed meanwhile; look at it again before you agree")
    hook.agreed_at = clock.now()
    hook.save(update_fields=["agreed_at"])
    record_change(hook, by, "agreed")
    return hook


@transaction.atomic
def withdraw_consent(pk: int, *, by: User) -> Hook:
    """Say no, or take a yes back: from the next delivery on nobody is answered. Runs that were started go on."""
    hook = _find_own(pk, by)
    hook.agreed_at, hook.enabled, hook.updated_at = None, False, clock.now()  # a form that is open elsewhere is out of date
    hook.save(update_fields=["agreed_at", "enabled", "updated_at"])
    record_change(hook, by, "refused", fields=["enabled"], enabled=False)
    return hook


def _find_own(pk: int, by: User) -> Hook:
    hook = Hook.objects.select_for_update().filter(pk=pk, owner=by).first()
    if hook is None:
        raise NotFound("there is no such webhook")
    return hook
