"""Webhooks as an operator creates them, and deliveries as senders make them."""

import json
from dataclasses import dataclass
from typing import Any

from clawsite.accounts.models import User
from clawsite.connectors.webhook import consent, delivery_log, inbound, service
from clawsite.connectors.webhook.delivery_log import IncomingDelivery
from clawsite.connectors.webhook.inbound import DeliveryResult
from clawsite.connectors.webhook.models import Hook
from clawsite.connectors.webhook.signatures import sign_body
from clawsite.infra import clock

SECRET = "It's a Secret to Everybody"


@dataclass(frozen=True)
class CreatedWebhook:
    """A webhook with its token."""

    hook: Hook
    token: str

    def headers(self, body: bytes) -> dict[str, str]:
        auth = {"authorization": f"Bearer {self.token}"} if self.token else {}
        if self.hook.signature:
            auth[self.hook.signature_header.lower()] = sign_body(self.hook.signature, body, SECRET, clock.now().timestamp())
        return auth

    def delivery(self, payload: Any, **headers: str) -> IncomingDelivery:
        """Return an authenticated delivery; `headers` replace its own."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return IncomingDelivery(self.hook.slug, "203.0.113.7", body, {**self.headers(body), **given})

    def send(self, payload: Any, **headers: str) -> DeliveryResult:
        """Process a delivery from arrival to response."""
        return deliver(self.delivery(payload, **headers))


def deliver(delivery: IncomingDelivery) -> DeliveryResult:
    delivery_log.check_failure_limit(delivery.address)
    hook = inbound.find_webhook(delivery.path)
    signed = inbound.authenticate_delivery(hook, delivery)
    return inbound.accept_delivery(hook, delivery, signed, inbound.build_request(hook, delivery))


def create_webhook(
    by: User, slug: str = "news", *, token: bool = True, secret: str = SECRET, agreed: bool = True, **fields: Any
) -> CreatedWebhook:
    """Create an enabled webhook with a token, a signing secret if `signature` is set, and its owner's consent."""
    action = slug if slug in ("wake", "agent") else "agent"
    fields = {"name": "News", "enabled": True, "action": action, "owner": service.find_default_owner(), **fields}
    hook = Hook(slug=slug, **fields)
    made = service.save_webhook(hook, by=by, secret=secret if hook.signature else "", makes_token=token)
    if agreed and not hook.is_agreed:
        hook = consent.give_consent(hook.pk, by=hook.owner, seen=hook.updated_at)
    return CreatedWebhook(hook, made)
