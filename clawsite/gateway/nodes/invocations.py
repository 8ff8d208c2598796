"""The life of one command for a node, in rows: asked, sent once, ended once. Who sends and who waits is in `nodes.desk`."""

import json
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from clawsite.accounts.models import User
from clawsite.gateway.devices.tokens import audit_subject
from clawsite.gateway.models import Device, NodeInvocation
from clawsite.infra import bus
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from clawsite.infra.errors import Conflict, InvalidRequest

Status = NodeInvocation.Status
RETENTION = timedelta(days=30)

NOT_CONNECTED = "NOT_CONNECTED"
TIMEOUT = "TIMEOUT"
UNAVAILABLE = "UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class InvocationRequest:
    """What somebody wants a node to do."""

    command: str
    params_json: str | None
    timeout_ms: int
    idempotency_key: str

    @property
    def request_hash(self) -> str:
        return sha256(json.dumps([self.command, self.params_json]).encode()).hexdigest()


def check_command(device: Device, command: str) -> None:
    """It must be declared by the node and allowed by a person."""
    if command not in device.declared.get("commands", []):
        raise InvalidRequest(f"node command not declared: {command[:200]}; the node offers {_list_commands(device.declared)}")
    if command not in device.allowed_commands:
        raise InvalidRequest(f"node command not allowed: {command[:200]}; somebody who may pair devices can allow it by node.allow")


def _list_commands(declared: dict[str, Any]) -> str:
    return ", ".join(declared.get("commands", [])) or "none"


def find_invocation(user: User, device: Device, asked: InvocationRequest) -> NodeInvocation | None:
    """What was asked before with this key; CONFLICT when it was something else."""
    before = NodeInvocation.objects.filter(owner=user, idempotency_key=asked.idempotency_key).first()
    if before and (before.device_id, before.request_hash) != (device.pk, asked.request_hash):
        raise Conflict("the idempotencyKey was used for another invocation; choose a new one")
    return before


@transaction.atomic
def create_invocation(user: User, device: Device, asked: InvocationRequest) -> NodeInvocation:
    """Store it, and say that it waits to be sent. The same key again finds the first."""
    now = timezone.now()
    NodeInvocation.objects.filter(owner=user, created_at__lt=now - RETENTION).delete()
    invocation, created = NodeInvocation.objects.get_or_create(
        owner=user,
        idempotency_key=asked.idempotency_key,
        defaults={
            "device": device,
            "command": asked.command,
            "params_json": asked.params_json or "",
            "request_hash": asked.request_hash,
            "timeout_ms": asked.timeout_ms,
            "expires_at": now + timedelta(milliseconds=asked.timeout_ms),
        },
    )
    if not created:
        find_invocation(user, device, asked)
        return invocation
    audit_log.record(
        "node.invoked",
        actor=acting.actor_for_user(user),
        subject=audit_subject(device),
        owner=device.owner_id,
        command=asked.command,
        invocation=str(invocation.pk),
        request=asked.request_hash[:16],
    )
    told = {"k": "node-invoke", "id": str(invocation.pk), "device": device.pk}
    transaction.on_commit(lambda: bus.publish(told))
    return invocation


def claim_invocation(invocation_id: str) -> NodeInvocation | None:
    """Mark it as sent; of all processes that have a socket of the node one gets it, and it is never given out again."""
    waiting = NodeInvocation.objects.filter(pk=UUID(invocation_id), expires_at__gt=timezone.now())
    if not waiting.filter(status__in=NodeInvocation.ENTERED_FROM[Status.SENT]).update(status=Status.SENT, sent_at=timezone.now()):
        return None
    return NodeInvocation.objects.select_related("device").get(pk=UUID(invocation_id))


def list_unsent(device_pks: list[int]) -> list[tuple[str, int]]:
    """What the bus may have lost: (invocation, device) that nobody has sent yet."""
    rows = NodeInvocation.objects.filter(device__in=device_pks, status=Status.PENDING, expires_at__gt=timezone.now())
    return [(str(pk), device) for pk, device in rows.order_by("created_at").values_list("pk", "device_id")[:100]]


@transaction.atomic
def end_invocation(
    invocation_id: str,
    *,
    device_pk: int = 0,
    result_json: str = "",
    error: tuple[str, str] | None = None,
    actor: Actor = acting.SYSTEM,
) -> bool:
    """Store how it ended; False when it had ended already, or is not this device's."""
    try:
        pk = UUID(invocation_id)
    except ValueError:
        return False
    to = Status.FAILED if error else Status.DONE
    code, message = error or ("", "")
    rows = NodeInvocation.objects.filter(pk=pk, status__in=NodeInvocation.ENTERED_FROM[to])
    if device_pk:
        rows = rows.filter(device_id=device_pk, status=Status.SENT)
    stamp = {"result_json": result_json, "error_code": code[:64], "error_message": message[:1000], "ended_at": timezone.now()}
    if not rows.update(status=to, **stamp):
        return False
    invocation = NodeInvocation.objects.select_related("device").get(pk=pk)
    outcome = {"outcome": to.value, **({"code": code[:64]} if code else {})}
    audit_log.record(
        "node.ended",
        actor=actor,
        subject=audit_subject(invocation.device),
        owner=invocation.device.owner_id,
        command=invocation.command,
        invocation=invocation_id,
        **outcome,
    )
    told = {"k": "node-result", "id": invocation_id}
    transaction.on_commit(lambda: bus.publish(told))
    return True


def get_invocation(invocation_id: str) -> NodeInvocation:
    return NodeInvocation.objects.select_related("device").get(pk=UUID(invocation_id))
