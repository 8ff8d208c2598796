"""Notify clients of pairing requests that were created or decided."""

import logging

from clawsite.gateway.delivery.audience import Audience
from clawsite.gateway.devices import shapes
from clawsite.gateway.devices.connecting import PairingChanged
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from clawsite.infra.errors import ClawError

log = logging.getLogger(__name__)


async def notify_pairing(audience: Audience, message: PairingChanged) -> None:
    """Notify users who may decide. A request with an account's credentials is only shown to that account and to managers."""
    if not audience:
        return
    try:
        result = await db.read(shapes.build_pairing_events, message.id, message.change)
    except ClawError as error:
        log.warning("could not announce pairing request: %s", error.message)
        return
    account, events = result or (None, [])
    for connection in audience:
        authority = connection.authority
        if Scope.PAIRING in authority.scopes and (account in (None, connection.user_pk) or authority.manages_devices):
            for outgoing in events:
                connection.deliver(outgoing)
