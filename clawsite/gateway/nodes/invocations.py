"""Node invocations in the database: created, sent once, ended once. `nodes.connected` sends them and waits for results."""

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
from clawsite.gateway.nodes.messages import InvocationCreated, InvocationEnded
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
    """A command for a node, as requested."""

    command: str
    params_json: str | None
    timeout_ms: int
    idempotency_key: str

    @property
    def request_hash(self) -> str:
        return sha256(json.dumps([self.command, self.params_json]).encode()).hexdigest()


def check_command(device: Device, command: str) -> None:
    """Raise InvalidRequest unless the node declares the command and it is allowed."""
    if command not in device.declared.get("commands", []):
        raise InvalidRequest(f"node command not declared: {command[:200]}; the node offers {_list_commands(device.declared)}")
    if command not in device.allowed_commands:
        raise InvalidRequest(f"node command not allowed: {command[:200]}; a user who may pair devices can allow it with node.allow")


def _list_commands(declared: dict[str, Any]) -> str:
    return ", ".join(declared.get("commands", [])) or "none"


def find_invocation(user: User, device: Device, request: InvocationRequest) -> NodeInvocation | None:
    """Find the invocation with this idempotency key. Raise Conflict if the request was different."""
    existing = NodeInvocation.objects.filter(owner=user, idempotency_key=request.idempotency_key).first()
    if existing and (existing.device_id, existing.request_hash) != (device.pk, request.request_hash):
        raise Conflict("the idempotencyKey was used for a different invocation; use a new one")
    return existing


@transaction.atomic
def create_invocation(user: User, device: Device, request: InvocationRequest) -> NodeInvocation:
    """Store an invocation and announce it for sending. A repeated idempotency key returns the first one."""
    now = timezone.now()
    NodeInvocation.objects.filter(owner=user, created_at__lt=now - RETENTION).delete()
    invocation, created = NodeInvocation.objects.get_or_create(
        owner=user,
        idempotency_key=request.idempotency_key,
        defaults={
            "device": device,
            "command": request.command,
            "params_json": request.params_json or "",
            "request_hash": request.request_hash,
            "timeout_ms": request.timeout_ms,
            "expires_at": now + timedelta(milliseconds=request.timeout_ms),
        },
    )
    if not created:
        find_invocation(user, device, request)
        return invocation
    audit_log.record(
        "node.invoked",
        actor=acting.actor_for_user(user),
        subject=audit_subject(device),
        owner=device.owner_id,
        command=request.command,
        invocation=str(invocation.pk),
        request=request.request_hash[:16],
    )
    bus.publish_on_commit(InvocationCreated(str(invocation.pk), device.pk))
    return invocation


def claim_invocation(invocation_id: str) -> NodeInvocation | None:
    """Mark an invocation as sent. Only one process can claim it, once."""
    waiting = NodeInvocation.objects.filter(pk=UUID(invocation_id), expires_at__gt=timezone.now())
    if not waiting.filter(status__in=NodeInvocation.ENTERED_FROM[Status.SENT]).update(status=Status.SENT, sent_at=timezone.now()):
        return None
    return NodeInvocation.objects.select_related("device").get(pk=UUID(invocation_id))


def list_unsent(device_pks: list[int]) -> list[tuple[str, int]]:
    """Return (invocation, device) for invocations not sent yet, in case a message was lost on the bus."""
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
    """Store the result. Return False if the invocation has already ended or belongs to another device."""
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
    bus.publish_on_commit(InvocationEnded(invocation_id))
    return True


def get_invocation(invocation_id: str) -> NodeInvocation:
    return NodeInvocation.objects.select_related("device").get(pk=UUID(invocation_id))
