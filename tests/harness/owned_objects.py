"""Something of every kind that belongs to one person, with a word in it that stands nowhere else; and names of nothing.

For tests about what other people can find: `kind` is what a parameter names, such as "session id" or "run number".
"""

import datetime as dt
import itertools
import uuid
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Permission
from django.test import Client

from agents.context.workspace import ensure_workspace
from agents.selectors import find_agent
from clawsite.accounts import tokens
from clawsite.accounts.models import BrowserSession, User
from clawsite.connectors.models import Hook
from clawsite.gateway.devices import tokens as device_tokens
from clawsite.gateway.models import Device, PairingRequest
from clawsite.infra import clock
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Attachment, Freeze, Outbox, Run, Session, ToolCall, TranscriptEntry
from sessions_app.runs import freezes, lifecycle, queue
from sessions_app.sessions import attachments
from sessions_app.sessions.service import create_session
from tests.harness.approvals import answered, asked
from tools_app.models import Approval, Command, Grant

_numbers = itertools.count(1)
MEMORY = "MEMORY.md"


@dataclass(frozen=True, slots=True)
class Belongings:
    owner: User
    word: str
    names: dict[str, Any]  # kind -> what names the thing

    def named(self, kind: str) -> Any:
        return self.names[kind]


def furnish(owner: User, word: str) -> Belongings:
    """A conversation with a file, a tool call, an open question, an answered one with its grant and command; a memory; a token."""
    n = next(_numbers)
    session = create_session(owner, key=f"agent:main:garden-{n}", label=f"{word} label {n}")
    Attachment.objects.filter(owner=owner, session=None).delete()  # of earlier ones; a person has a hundred unsent files at most
    file = attachments.register(owner, attachments.store_file([f"{word} in a file {n}".encode()], f"{word}-{n}.txt", "text/plain"))
    (ensure_workspace(find_agent("main"), owner.pk) / MEMORY).write_text(memory_of(word))
    run = _talked(owner, session, word, f"{word}-run-{n}")
    busy = create_session(owner, key=f"agent:main:kitchen-{n}", title=f"{word} waits")
    approval = asked(owner, busy, f"cat {word}.txt")
    Approval.objects.filter(pk=approval.pk).update(shown={**approval.shown, "touches": []})
    answered(owner, owner, session, run, f"{word}-{n}")
    Outbox.objects.create(session=session, run=run, channel="mail", payload={"text": word}, created_at=clock.now())
    device = Device.objects.create(
        owner=owner, fingerprint=uuid.uuid4().hex * 2, public_key="k", display_name=f"{word} kitchen", is_node=True
    )
    device_tokens.prepare_token(device, "node", [])
    pairing, of_node = (_wants_in(owner, word, role) for role in ("operator", "node"))
    hook = Hook.objects.create(owner=owner, slug=f"belongings-{n}", name=f"{word} hook", enabled=True, instructions=word)
    token, _secret = tokens.issue_token(owner, f"{word} token", ["operator.read"])
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
        "words": word,
    }
    return Belongings(owner, word, names)


def memory_of(word: str) -> str:
    """What MEMORY.md says in the workspace of somebody with that word."""
    return f"{word} is to be remembered\n"


def may_also(user: User, *permissions: str) -> User:
    """Somebody with rights beside those of their group, as an account that knows of them."""
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return User.objects.get(pk=user.pk)


def _wants_in(owner: User, word: str, role: str) -> PairingRequest:
    """A device that came with the owner's credential, and waits."""
    return PairingRequest.objects.create(
        fingerprint=uuid.uuid4().hex * 2,
        public_key="k",
        account=owner,
        role=role,
        facts={"displayName": f"{word} {role}"},
        expires_at=clock.now() + dt.timedelta(minutes=5),
    )


def stopped(belongings: Belongings, by: User) -> Freeze:
    """Somebody has stopped the run of these belongings, and says why."""
    subject = str(belongings.named("open run number"))
    return freezes.freeze("run", subject, reason=f"{belongings.word} went wrong", by=by, by_name=by.username)[0]


def of_nothing(theirs: Belongings) -> dict[str, Any]:
    """Names of the same form for what does not exist."""
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


def _talked(owner: User, session: Session, word: str, run_id: str) -> Run:
    """One question, one answer, as a worker stores them."""
    # Only what nobody waits for any more: the lane has a limit, and no worker is here to empty it.
    Run.objects.filter(owner=owner, status="accepted").update(status=Run.Status.ABORTED, ended_at=clock.now())
    lifecycle.accept_run(user=owner, session=session, run_id=run_id, prompt=f"tell me about {word}")
    claimed = next(one for one in queue.claim_runs("hand", 64).runs if one.run_id == run_id)
    content = [{"type": "text", "text": f"{word} is a secret"}]
    message = {"role": "assistant", "content": content, "timestamp": 1, "messageId": f"m-{run_id}"}
    said = NewEvent("assistant", {"messageId": f"m-{run_id}", "attempt": 1, "final": True, "message": message})
    entry = NewEntry("message", "assistant", content, content[0]["text"], f"m-{run_id}"[:32], {"stopReason": "stop"})
    last = lifecycle.build_end_event(Run.Status.COMPLETED, "stop", startedAt=claimed.started_ms)
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason="stop", events=[said, last], entries=[entry], model="openai/fake-1")
    return Run.objects.get(pk=claimed.pk)


# Written by everybody's doing: how far the log has come, how busy a lane is, the seal of the record.
SHARED_ROWS = {"EventLog", "Lane", "AuditHead", "AuditSeal"}
OURS = ("accounts", "agents", "gateway", "infra", "sessions_app", "tools_app")


def rows_now() -> dict[str, dict[Any, Any]]:
    """Every row there is: table -> key -> values."""
    models = [model for app in OURS for model in apps.get_app_config(app).get_models() if model.__name__ not in SHARED_ROWS]
    return {model.__name__: {row["pk"]: row for row in model._base_manager.values("pk", *_columns(model))} for model in models}


def _columns(model: Any) -> list[str]:
    return [column.attname for column in model._meta.concrete_fields]
