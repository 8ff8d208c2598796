"""One object of every kind owned by one user, each containing the user's unique secret.

For tests of what other users can find. A `kind` is what a parameter refers to, such as "session id" or "run number".
"""

import datetime as dt
import itertools
import uuid
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.test import Client

from agents.context.workspace import ensure_workspace
from agents.selectors import find_agent
from clawsite.accounts import tokens
from clawsite.accounts.models import BrowserSession, User
from clawsite.connectors.webhook.models import Hook
from clawsite.gateway.devices import tokens as device_tokens
from clawsite.gateway.models import Device, PairingRequest
from clawsite.infra import clock
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Attachment, Freeze, Outbox, Run, Session, ToolCall, TranscriptEntry
from sessions_app.runs import freezes, lifecycle, queue
from sessions_app.sessions import attachments
from sessions_app.sessions.service import create_session
from tests.harness.approvals import create_approval, create_decided_approval
from tools_app.models import Approval, Command, Grant

_numbers = itertools.count(1)
MEMORY_FILE = "MEMORY.md"


@dataclass(frozen=True, slots=True)
class OwnedObjects:
    owner: User
    secret: str
    names: dict[str, Any]  # kind -> the object's ID, key or number

    def named(self, kind: str) -> Any:
        return self.names[kind]


def create_owned_objects(owner: User, secret: str) -> OwnedObjects:
    """Create a session with a file and a tool call, an open and a decided approval request, a memory file, a device, a token."""
    n = next(_numbers)
    session = create_session(owner, key=f"agent:main:garden-{n}", label=f"{secret} label {n}")
    Attachment.objects.filter(owner=owner, session=None).delete()  # of earlier calls; an account may have 100 unsent files
    file = attachments.register(
        owner, attachments.store_file([f"{secret} in a file {n}".encode()], f"{secret}-{n}.txt", "text/plain")
    )
    (ensure_workspace(find_agent("main"), owner.pk) / MEMORY_FILE).write_text(memory_text(secret))
    run = _complete_run(owner, session, secret, f"{secret}-run-{n}")
    busy = create_session(owner, key=f"agent:main:kitchen-{n}", title=f"{secret} waits")
    approval = create_approval(owner, busy, f"cat {secret}.txt")
    Approval.objects.filter(pk=approval.pk).update(shown={**approval.shown, "touches": []})
    create_decided_approval(owner, owner, session, run, f"{secret}-{n}")
    Outbox.objects.create(session=session, run=run, channel="mail", payload={"text": secret}, created_at=clock.now())
    device = Device.objects.create(
        owner=owner, fingerprint=uuid.uuid4().hex * 2, public_key="k", display_name=f"{secret} kitchen", is_node=True
    )
    device_tokens.prepare_token(device, "node", [])
    pairing, of_node = (_create_pairing_request(owner, secret, role) for role in ("operator", "node"))
    hook = Hook.objects.create(owner=owner, slug=f"owned-{n}", name=f"{secret} hook", enabled=True, instructions=secret)
    token, _secret = tokens.issue_token(owner, f"{secret} token", ["operator.read"])
    Client().force_login(owner)
    call = ToolCall.objects.get(run=approval.run, call_id=approval.call_id)
    grant = Grant.objects.filter(owner=owner).latest("pk")
    names = {
        "session id": str(session.pk),
        "generation id": str(session.generation_id),
        "shared key": f"session:{session.pk}",
        "own key": session.key,
        "open session id": str(busy.pk),
        "open key": busy.key,
        "label": session.label,
        "run id": run.run_id,
        "run number": run.pk,
        "open run id": approval.run.run_id,
        "open run number": approval.run_id,
        "message id": TranscriptEntry.objects.filter(session=session, role="user").earliest("pk").message_id,
        "attachment id": str(file.pk),
        "approval id": str(approval.pk),
        "grant number": grant.pk,
        "grant id": str(grant.pk),
        "command id": str(Command.objects.filter(session=session).latest("started_at").pk),
        "token number": token.pk,
        "browser number": BrowserSession.objects.filter(user=owner).latest("pk").pk,
        "call number": call.pk,
        "call id": approval.call_id,
        "device id": device.fingerprint,
        "device number": device.pk,
        "pairing id": str(pairing.pk),
        "node's pairing id": str(of_node.pk),
        "hook number": hook.pk,
        "words": secret,
    }
    return OwnedObjects(owner, secret, names)


def memory_text(secret: str) -> str:
    """Return the content of MEMORY.md."""
    return f"{secret} is to be remembered\n"


def _create_pairing_request(owner: User, secret: str, role: str) -> PairingRequest:
    """Create a pending pairing request made with the owner's credential."""
    return PairingRequest.objects.create(
        fingerprint=uuid.uuid4().hex * 2,
        public_key="k",
        account=owner,
        role=role,
        facts={"displayName": f"{secret} {role}"},
        expires_at=clock.now() + dt.timedelta(minutes=5),
    )


def freeze_open_run(owned: OwnedObjects, by: User) -> Freeze:
    """Freeze the open run, with a reason that contains the secret."""
    subject = str(owned.named("open run number"))
    return freezes.freeze("run", subject, reason=f"{owned.secret} went wrong", by=by, by_name=by.username)[0]


def missing_names(theirs: OwnedObjects) -> dict[str, Any]:
    """Return IDs of the same form for objects that don't exist."""
    return {kind: _unknown(kind, name) for kind, name in theirs.names.items()}


def _unknown(kind: str, like: Any) -> Any:
    match kind:
        case "shared key":
            return f"session:{uuid.uuid4()}"
        case "own key" | "open key":
            return f"agent:main:nothing-{next(_numbers)}"
    if isinstance(like, int):
        return 2_000_000_000 + next(_numbers)
    try:
        uuid.UUID(like)
    except ValueError:
        return f"nothing-{next(_numbers)}"
    return uuid.uuid4().hex if len(like) == 32 else str(uuid.uuid4())


def _complete_run(owner: User, session: Session, secret: str, run_id: str) -> Run:
    """Store a completed run with a prompt and an answer, as a worker does."""
    # Earlier runs must not fill the lane: no worker is running.
    Run.objects.filter(owner=owner, status="accepted").update(status=Run.Status.ABORTED, ended_at=clock.now())
    lifecycle.accept_run(user=owner, session=session, run_id=run_id, prompt=f"tell me about {secret}")
    claimed = next(one for one in queue.claim_runs("w1", 64).runs if one.run_id == run_id)
    content = [{"type": "text", "text": f"{secret} is a secret"}]
    message = {"role": "assistant", "content": content, "timestamp": 1, "messageId": f"m-{run_id}"}
    said = NewEvent("assistant", {"messageId": f"m-{run_id}", "attempt": 1, "final": True, "message": message})
    entry = NewEntry("message", "assistant", content, content[0]["text"], f"m-{run_id}"[:32], {"stopReason": "stop"})
    last = lifecycle.build_end_event(Run.Status.COMPLETED, "stop", startedAt=claimed.started_ms)
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason="stop", events=[said, last], entries=[entry], model="openai/fake-1")
    return Run.objects.get(pk=claimed.pk)


# Changed by any user's actions: event log position, lane load, chain hash of the audit log.
SHARED_ROWS = {"EventLog", "Lane", "AuditHead", "AuditSeal"}
APPS = ("accounts", "agents", "gateway", "infra", "sessions_app", "tools_app")


def snapshot_rows() -> dict[str, dict[Any, Any]]:
    """Return all rows: model name -> primary key -> values."""
    models = [model for app in APPS for model in apps.get_app_config(app).get_models() if model.__name__ not in SHARED_ROWS]
    return {model.__name__: {row["pk"]: row for row in model._base_manager.values("pk", *_columns(model))} for model in models}


def _columns(model: Any) -> list[str]:
    return [column.attname for column in model._meta.concrete_fields]
