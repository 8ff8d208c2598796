"""Webhooks for tests: made as an operator makes them, and called as senders call them."""

import json
from dataclasses import dataclass
from typing import Any

from clawsite.accounts.models import User
from clawsite.connectors.models import Hook
from clawsite.connectors.webhook import consent, delivery_log, inbound, service
from clawsite.connectors.webhook.delivery_log import IncomingDelivery
from clawsite.connectors.webhook.inbound import DeliveryResult
from clawsite.connectors.webhook.signatures import sign_body
from clawsite.infra import clock

SECRET = "It's a Secret to Everybody"


@dataclass(frozen=True)
class Made:
    """A webhook, and what its senders know."""

    hook: Hook
    token: str

    def headers(self, body: bytes) -> dict[str, str]:
        proof = {"authorization": f"Bearer {self.token}"} if self.token else {}
        if self.hook.signature:
            proof[self.hook.signature_header.lower()] = sign_body(self.hook.signature, body, SECRET, clock.now().timestamp())
        return proof

    def came(self, payload: Any, **headers: str) -> IncomingDelivery:
        """A delivery with the right proof; a header given here replaces it."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return IncomingDelivery(self.hook.slug, "203.0.113.7", body, {**self.headers(body), **given})

    def send(self, payload: Any, **headers: str) -> DeliveryResult:
        """All that happens to a delivery between its arrival and its answer."""
        return send(self.came(payload, **headers))


def send(came: IncomingDelivery) -> DeliveryResult:
    delivery_log.check_failure_limit(came.address)
    hook = inbound.find_webhook(came.path)
    signed = inbound.authenticate_delivery(hook, came)
    return inbound.accept_delivery(hook, came, signed, inbound.build_request(hook, came))


def make_hook(
    by: User, slug: str = "news", *, token: bool = True, secret: str = SECRET, agreed: bool = True, **fields: Any
) -> Made:
    """Enabled, with a token, with a signature if one is named, and with the yes of the person it acts for."""
    action = slug if slug in ("wake", "agent") else "agent"
    fields = {"name": "News", "enabled": True, "action": action, "owner": service.find_default_owner(), **fields}
    hook = Hook(slug=slug, **fields)
    made = service.save_webhook(hook, by=by, secret=secret if hook.signature else "", makes_token=token)
    if agreed and not hook.is_agreed:
        hook = consent.give_consent(hook.pk, by=hook.owner, seen=hook.updated_at)
    return Made(hook, made)
