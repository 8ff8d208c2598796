"""A webhook that acts for a person needs that person's consent, because it uses their sessions and their agents' tools.

Users who create a webhook for themselves consent by doing so. A webhook for another user's account rejects all deliveries until
that user authorizes it on their account page, and again after every change by another user (see service).
"""

import datetime as dt

from django.db import transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.connectors.webhook.models import Hook
from clawsite.connectors.webhook.service import record_change
from clawsite.infra import clock
from clawsite.infra.errors import Conflict, NotFound


def list_webhooks_for(user: User) -> list[Hook]:
    """List the webhooks that act for the user or await consent. Disabled webhooks without consent are left out."""
    return [hook for hook in Hook.objects.filter(owner=user).order_by("slug") if hook.enabled or hook.agreed_at]


@transaction.atomic
def give_consent(pk: int, *, by: User, seen: dt.datetime | None) -> Hook:
    """Authorize the webhook in the version that `by` has seen (`updated_at`)."""
    hook = _find_own(pk, by)
    if hook.updated_at != seen:
        raise Conflict(_("The webhook was changed. Review it again before you authorize it."))
    hook.agreed_at = clock.now()
    hook.save(update_fields=["agreed_at"])
    record_change(hook, by, "agreed")
    return hook


@transaction.atomic
def withdraw_consent(pk: int, *, by: User) -> Hook:
    """Decline or revoke consent. All further deliveries are rejected; started runs continue."""
    hook = _find_own(pk, by)
    hook.agreed_at, hook.enabled, hook.updated_at = None, False, clock.now()  # makes forms open elsewhere out of date
    hook.save(update_fields=["agreed_at", "enabled", "updated_at"])
    record_change(hook, by, "refused", fields=["enabled"], enabled=False)
    return hook


def _find_own(pk: int, by: User) -> Hook:
    hook = Hook.objects.select_for_update().filter(pk=pk, owner=by).first()
    if hook is None:
        raise NotFound(_("Webhook not found."))
    return hook
