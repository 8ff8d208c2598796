"""A delivery to a webhook, from authentication to the run it starts.

Acceptance is one transaction: the delivery row, which prevents duplicates, the run and the audit log entry are stored together.
"""

import hmac
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from clawsite.accounts import tokens
from clawsite.accounts.groups import WRITE, scopes_of
from clawsite.accounts.models import User
from clawsite.connectors.webhook import delivery_log, service
from clawsite.connectors.webhook.delivery_log import IncomingDelivery
from clawsite.connectors.webhook.models import Hook, HookDelivery, SpentSignature
from clawsite.connectors.webhook.prompt_templates import TemplateValues
from clawsite.connectors.webhook.requests import WebhookRunRequest, WebhookWakeRequest, parse_request
from clawsite.connectors.webhook.signatures import PLAIN, InvalidSignature, verify_signature
from clawsite.infra import clock
from clawsite.infra.audit import log as audit_log
from clawsite.infra.bounded_json import read_json
from clawsite.infra.errors import ClawError, Conflict, InvalidRequest, NotFound, Unavailable
from clawsite.infra.text import make_storable
from clawsite.routing.inbound import open_session
from clawsite.routing.wake import WakeMode, open_main_session, wake
from sessions_app.runs import lanes
from sessions_app.runs.lifecycle import accept_run

TOKEN_HEADERS = ("x-openclaw-token", "x-clawsite-token")
SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie", *TOKEN_HEADERS}
MAX_VALUES = 50_000  # JSON values in a body
MAX_ID_LENGTH = 200
MAX_PATH_LENGTH = 64
NO_TOKEN_DIGEST = "0" * 64  # matches no token


class DeliveryUnauthorized(ClawError):
    """The sender is not authenticated. The message is for the log and is never sent to the sender."""

    code = "UNAUTHORIZED"
    http_status = 401


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of a delivery. `run_id` is set if this delivery, or an earlier duplicate, started a run."""

    owner: User
    run: int | None = None
    run_id: str = ""
    duplicate: bool = False
    mode: WakeMode | None = None  # only for a message to the main session
    event: str = ""


def find_webhook(path: str) -> Hook:
    """Return the webhook at the path, enabled or not. For an unknown path, return an unsaved one that rejects every credential."""
    known = service.SLUG_PATTERN.fullmatch(path)  # a path may contain characters that the database rejects
    found = Hook.objects.select_related("owner").filter(slug=path).first() if known else None
    return found or Hook(slug=make_storable(path)[:MAX_PATH_LENGTH])


def authenticate_delivery(hook: Hook, came: IncomingDelivery) -> str | None:
    """Return the digest of the signed content, or None if only a token is required.

    Raise DeliveryUnauthorized unless every required credential is right. Every check is always made, so that the response time does
    not reveal which webhooks exist.
    """
    token_is_right = hmac.compare_digest(service.hash_token(_read_token(came)), hook.token_digest or NO_TOKEN_DIGEST)
    signed, wrong = _verify_signature(hook, came)
    if hook.pk is None:
        raise DeliveryUnauthorized("there is no such webhook")
    if not hook.enabled:
        raise DeliveryUnauthorized("the webhook is disabled")
    if not hook.is_agreed:
        raise DeliveryUnauthorized("the owner of the account has not authorized the webhook")
    if not hook.is_guarded:
        raise DeliveryUnauthorized("the webhook has neither a token nor a signing secret")
    if hook.token_digest and not token_is_right:
        raise DeliveryUnauthorized("the token is missing or wrong")
    if hook.signature and wrong:
        raise DeliveryUnauthorized(wrong)
    return signed if hook.signature else None


def _verify_signature(hook: Hook, came: IncomingDelivery) -> tuple[str, str]:
    """Return the digest of the signed content and an error message; one of the two is empty."""
    header = came.headers.get(hook.signature_header.lower(), "")
    try:
        return verify_signature(
            hook.signature or PLAIN, header, came.body, service.read_signing_secret(hook), clock.now().timestamp()
        ), ""
    except (InvalidSignature, Unavailable) as error:
        return "", str(error)


def _read_token(came: IncomingDelivery) -> str:
    secret = tokens.parse_bearer_header(came.headers.get("authorization", ""))
    if secret is not None:
        return secret
    return next((came.headers[name].strip() for name in TOKEN_HEADERS if name in came.headers), "")


def read_template_values(hook: Hook, came: IncomingDelivery) -> TemplateValues:
    """Return the values that templates can use. Raise InvalidRequest if the body is not JSON."""
    try:
        payload = read_json(came.body, MAX_VALUES)
    except orjson.JSONDecodeError:
        raise InvalidRequest(_("The body is not JSON. Send it as application/json.")) from None
    hidden = SECRET_HEADERS | {hook.signature_header.lower()}
    headers = {name: make_storable(value) for name, value in came.headers.items() if name not in hidden}
    return TemplateValues(payload, headers, make_storable(dict(came.query)), hook.slug, clock.now().isoformat(timespec="seconds"))


def build_request(hook: Hook, came: IncomingDelivery) -> WebhookRunRequest | WebhookWakeRequest:
    """Return what the delivery requests. Writes nothing."""
    return parse_request(hook, read_template_values(hook, came))


@transaction.atomic
def accept_delivery(
    hook: Hook, came: IncomingDelivery, signed: str | None, wish: WebhookRunRequest | WebhookWakeRequest
) -> DeliveryResult:
    """Accept an authenticated delivery, once per delivery ID and signature.

    Signatures without a timestamp are remembered until the signing secret changes.
    """
    _check_unchanged(hook)
    own_id = came.headers.get("idempotency-key") or came.headers.get(hook.delivery_header.lower() or "-", "")
    ids = {"delivery_id": make_storable(own_id)[:MAX_ID_LENGTH] or None, "signature_digest": signed}
    if first := _find_duplicate(hook, came, ids):
        return first
    row = delivery_log.build_delivery(
        hook, came, HookDelivery.Outcome.ACCEPTED, 202 if isinstance(wish, WebhookRunRequest) else 200, **ids
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            if signed and hook.signature == PLAIN:
                SpentSignature.objects.create(hook=hook, digest=signed)
    except IntegrityError:  # another process got there first
        if first := _find_duplicate(hook, came, ids):
            return first
        raise Conflict(_("The same delivery is in progress. Try again."), retryable=True) from None
    taken = _start_run(hook, row, wish) if isinstance(wish, WebhookRunRequest) else _wake_session(hook, wish)
    row.run_id = taken.run
    row.save(update_fields=["run", "name", "wake_mode", "report_due"])
    audit_log.record(
        "hook.accepted",
        actor=delivery_log.webhook_actor(hook),
        subject=("hook", hook.pk),
        run=taken.run or "",
        path=hook.slug,
        delivery=row.pk,
        address=came.address,
    )
    return taken


def _start_run(hook: Hook, row: HookDelivery, wish: WebhookRunRequest) -> DeliveryResult:
    session = _open_session(hook, wish.session_key)
    accepted = accept_run(
        user=hook.owner,
        session=session,
        run_id=f"hook-{row.pk}",
        prompt=wish.prompt,
        request=wish.request,
        lane=lanes.CRON,
        timeout_seconds=wish.timeout_seconds,
    )
    row.name, row.wake_mode, row.report_due = wish.name, wish.report_mode or "", wish.report_mode is not None
    return DeliveryResult(hook.owner, accepted.pk, accepted.run_id)


def _wake_session(hook: Hook, wish: WebhookWakeRequest) -> DeliveryResult:
    try:
        session = open_main_session(hook.owner, hook.agent)
    except NotFound:
        raise _no_agent_error() from None
    woken = wake(hook.owner, session, wish.text, mode=wish.mode, source=str(hook), hook=hook.slug)
    return DeliveryResult(hook.owner, woken.run, woken.run_id, mode=wish.mode, event=woken.outcome)


def _open_session(hook: Hook, key: str) -> Any:
    try:
        return open_session(hook.owner, key=key, title=hook.name)
    except NotFound:
        raise _no_agent_error() from None


def _no_agent_error() -> Unavailable:
    return Unavailable(_("The agent of this webhook is missing or disabled. Ask an operator."))


def _check_unchanged(hook: Hook) -> None:
    """Check that the webhook has not changed since the delivery was authenticated, for example to a new token."""
    same = Hook.objects.filter(
        pk=hook.pk,
        enabled=True,
        token_digest=hook.token_digest,
        signature=hook.signature,
        sealed_secret=hook.sealed_secret,
        agreed_at=hook.agreed_at,
    )
    if not same.exists():
        raise DeliveryUnauthorized("the webhook was changed while the delivery was being processed")
    if not hook.is_agreed:  # a test delivery from the admin
        raise Unavailable(_("The owner of the account has not authorized the webhook yet. They can do so on their account page."))
    if not hook.owner.is_active or WRITE not in scopes_of(hook.owner):
        raise Unavailable(_("The account of this webhook is disabled. Ask an operator."))


def _find_duplicate(hook: Hook, came: IncomingDelivery, ids: dict[str, str | None]) -> DeliveryResult | None:
    """Return the result for a duplicate: the run that the first delivery started."""
    wanted = Q()
    for name, value in ids.items():
        if value is not None:
            wanted |= Q(**{name: value})
    first = HookDelivery.objects.select_related("run").filter(wanted, hook=hook).order_by("pk").first() if wanted else None
    if first is None:
        return _find_spent_signature(hook, came, ids)
    if first.body_digest != came.digest:
        raise Conflict(_("This delivery ID was used for a different body. Use a new one."))
    delivery_log.build_delivery(hook, came, HookDelivery.Outcome.DUPLICATE, 200, run=first.run).save(force_insert=True)
    return DeliveryResult(hook.owner, first.run_id, first.run.run_id if first.run else "", duplicate=True)


def _find_spent_signature(hook: Hook, came: IncomingDelivery, ids: dict[str, str | None]) -> DeliveryResult | None:
    """Return the result for a signature that was used before but whose delivery is no longer in the log."""
    if not SpentSignature.objects.filter(hook=hook, digest=ids["signature_digest"] or "").exists():
        return None
    delivery_log.build_delivery(hook, came, HookDelivery.Outcome.DUPLICATE, 200).save(force_insert=True)
    return DeliveryResult(hook.owner, duplicate=True)
