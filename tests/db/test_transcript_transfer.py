"""Export and import on the database of this run, and the commands around them."""

import datetime as dt
import io
import json
import stat
import sys

import pytest

from agents.context.history import to_message
from agents.llm.messages import UserMessage
from agents.loop import find_unanswered_calls, normalize_history
from clawsite.cli import main
from clawsite.cli.command import CommandFailed
from clawsite.infra.errors import Conflict, InvalidRequest
from sessions_app.events.announce import EventsCommitted, SessionChanged
from sessions_app.models import Event, Run, Session, TranscriptEntry
from sessions_app.runs import lifecycle
from sessions_app.sessions import service as session_service
from sessions_app.sessions import transfer
from sessions_app.sessions.transfer import export_lines, import_transcript
from sessions_app.transcript.messages import read_model_history

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

CALL = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "rm -r /"}}
HEADER = {"type": "session", "version": 1, "title": "Tidying"}
SENT = [
    ("message", {"role": "user", "content": [{"type": "text", "text": "tidy\0 up"}]}),
    ("message", {"role": "assistant", "content": [{"type": "text", "text": "I do."}, CALL], "model": "gpt", "runId": "theirs"}),
    (
        "toolResult",
        {"role": "toolResult", "content": [], "toolCallId": "c1", "toolName": "exec", "isError": True, "details": {"a": 1}},
    ),
    ("compaction", {"role": "", "content": [{"type": "text", "text": "we tidied"}]}),
    ("session", {"role": "", "content": [], "change": "model"}),
]


def file_of(*entries, header=HEADER):
    lines, parent = [header], None
    for number, (kind, message) in enumerate(entries):
        at = f"2026-02-01T10:15:{number:02}.123456Z"
        lines.append({"type": kind, "id": f"m{number}", "parentId": parent, "timestamp": at, "message": message})
        parent = f"m{number}"
    return io.BytesIO("\n".join(json.dumps(line) for line in lines).encode())


def exported(session, **options):
    session.refresh_from_db()
    return [json.loads(line) for line in export_lines(session, **options)]


def texts(lines):
    return [block["text"] for line in lines[1:] for block in line["message"]["content"]]


def test_imported_session_matches_file(user):
    made = import_transcript(user, "agent:main:copy", file_of(*SENT))
    session = Session.objects.get(pk=made.session.pk)
    assert (made.entries, session.entry_count, session.cursor, session.title, session.owner) == (5, 5, 1, "Tidying", user)
    entries = list(TranscriptEntry.objects.filter(session=session).order_by("position"))
    assert [entry.position for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry.kind for entry in entries] == ["message", "message", "tool_result", "compaction", "session"]
    assert [entry.text for entry in entries] == ["tidy up", "I do.", "", "we tidied", ""]
    assert entries[1].content[1] == CALL
    assert [entry.meta for entry in entries[1:3]] == [
        {"model": "gpt"},
        {"toolCallId": "c1", "toolName": "exec", "isError": True, "details": {"a": 1}},
    ]
    assert {(entry.run_id, entry.step) for entry in entries} == {(None, None)}
    assert entries[2].created_at == dt.datetime(2026, 2, 1, 10, 15, 2, 123456, tzinfo=dt.UTC)


def test_import_and_export_round_trip(user, monkeypatch):
    monkeypatch.setattr(transfer, "PAGE_SIZE", 2)
    first = exported(import_transcript(user, "agent:main:one", file_of(*SENT)).session)
    file = io.BytesIO("\n".join(map(json.dumps, first)).encode())
    second = exported(import_transcript(user, "agent:main:two", file).session)
    assert len(first) == 6
    assert second[1:] == first[1:]
    assert (first[0]["key"], second[0]["key"], second[0]["title"]) == ("agent:main:one", "agent:main:two", "Tidying")


def test_import_creates_one_event_and_no_run(user):
    session = import_transcript(user, "agent:main:copy", file_of(*SENT)).session
    assert list(Event.objects.filter(session=session).values_list("cursor", "stream", "data", "run")) == [
        (1, "session", {"change": "imported"}, None)
    ]
    assert not Run.objects.exists()


async def test_import_is_announced_on_bus(user, bus_messages, eventually):
    session = import_transcript(user, "agent:main:copy", file_of(*SENT)).session
    await eventually(lambda: [m for m in bus_messages if isinstance(m, EventsCommitted) and m.session == str(session.pk)])
    assert [m.change for m in bus_messages if isinstance(m, SessionChanged)] == ["created"]


def test_imported_tool_call_is_never_executed(user):
    session = import_transcript(user, "agent:main:copy", file_of(*SENT[:2])).session
    history = [to_message(entry) for entry in read_model_history(session.pk, 1)]
    assert find_unanswered_calls(normalize_history([*history, UserMessage("and now?")])) == []


def test_imported_session_can_be_continued(user):
    session = import_transcript(user, "agent:main:copy", file_of(*SENT)).session
    session_service.inject_message(user, session, "welcome back")
    session.refresh_from_db()
    assert (session.entry_count, session.cursor) == (6, 2)
    assert exported(session)[-1]["parentId"] == "m4"


@pytest.mark.parametrize("at", [0, 1, 4])
def test_invalid_entry_aborts_whole_import(user, at):
    entries = list(SENT)
    entries[at] = ("message", {"role": "system", "content": []})
    with pytest.raises(InvalidRequest, match=f"^line {at + 2}: the role of a message"):
        import_transcript(user, "agent:main:copy", file_of(*entries))
    assert not Session.objects.exists()


def test_failed_import_is_rolled_back(user, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(transfer.journal, "insert_session_event", broken)
    with pytest.raises(RuntimeError):
        import_transcript(user, "agent:main:copy", file_of(*SENT))
    assert not Session.objects.exists()
    assert not TranscriptEntry.objects.exists()


def test_import_fills_existing_empty_session(user, make_session):
    session = make_session(user, "agent:main:main")
    assert import_transcript(user, "main", file_of(*SENT)).session == session


def test_import_into_session_with_messages_is_rejected(user, make_session):
    session = make_session(user, "agent:main:main")
    session_service.inject_message(user, session, "hello")
    session_service.reset_session(user, session)
    with pytest.raises(Conflict, match="already in use"):
        import_transcript(user, "agent:main:main", file_of(*SENT))
    assert TranscriptEntry.objects.get(kind="message").text == "hello"


def test_import_into_session_with_queued_prompt_is_rejected(user, make_session):
    lifecycle.accept_run(user=user, session=make_session(user, "agent:main:main"), run_id="r1", prompt="hi")
    with pytest.raises(Conflict, match="already in use"):
        import_transcript(user, "agent:main:main", file_of(*SENT))


def test_same_key_of_another_user_is_separate_session(user, make_user):
    other = make_user()
    theirs = import_transcript(other, "agent:main:main", file_of(*SENT)).session
    mine = import_transcript(user, "agent:main:main", file_of(*SENT[:1])).session
    assert mine != theirs
    assert (len(exported(mine)), len(exported(theirs))) == (2, 6)


def test_messages_before_reset_are_exported_only_on_request(user, make_session):
    session = make_session(user)
    session_service.inject_message(user, session, "before")
    session_service.reset_session(user, session)
    session_service.inject_message(user, session, "after")
    assert texts(exported(session)) == ["after"]
    assert texts(exported(session, all_generations=True)) == ["before", "after"]


@pytest.mark.parametrize(("words_after", "left"), [(["after"], ["after"]), ([], [])])
def test_export_and_import_preserve_resets(user, make_session, words_after, left):
    session = make_session(user)
    for before in ("first", "second"):
        session_service.inject_message(user, session, before)
        session_service.reset_session(user, session)
        session_service.reset_session(user, session)
    for after in words_after:
        session_service.inject_message(user, Session.objects.get(pk=session.pk), after)
    file = io.BytesIO(b"".join(export_lines(Session.objects.get(pk=session.pk), all_generations=True)))
    copy = import_transcript(user, "agent:main:copy", file).session
    assert texts(exported(copy)) == left
    assert texts(exported(copy, all_generations=True)) == ["first", "second", *left]
    assert [entry.text for entry in read_model_history(copy.pk, copy.generation)] == left


def test_entries_with_same_timestamp_are_inserted_in_batches(user, monkeypatch):
    sizes, insert = [], transfer.journal.insert_entries
    monkeypatch.setattr(transfer.journal, "insert_entries", lambda batch, now: (sizes.append(len(batch)), insert(batch, now)))
    lines = file_of(*[SENT[0]] * 50).getvalue().splitlines()
    same = [json.dumps({**json.loads(line), "timestamp": "2026-02-01T10:15:00Z"}) for line in lines[1:]]
    monkeypatch.setattr(transfer, "PAGE_SIZE", 20)
    import_transcript(user, "agent:main:long", io.BytesIO("\n".join([lines[0].decode(), *same]).encode()))
    assert [size for size in sizes if size] == [20, 20, 10]


class Stdin:
    def __init__(self, file):
        self.buffer = file


def test_export_and_import_copy_session_to_another_account(make_user, tmp_path, monkeypatch, capsysbinary):
    ada, bob = make_user(name="ada"), make_user(name="bob")
    import_transcript(ada, "agent:main:notes", file_of(*SENT))
    path = tmp_path / "notes.jsonl"
    path.write_text("an older one")
    path.chmod(0o644)
    main.run(["export", "--user", "ada", "--session", "agent:main:notes", "-o", str(path)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["notes.jsonl"]
    main.run(["export", "--user", "ada", "--session", "agent:main:notes"])
    assert capsysbinary.readouterr() == (path.read_bytes(), b"")
    main.run(["import", "--user", "bob", "--session", "agent:main:from-file", str(path)])
    monkeypatch.setattr(sys, "stdin", Stdin(io.BytesIO(path.read_bytes())))
    main.run(["import", "--user", "bob", "--session", "agent:main:from-pipe", "-"])
    assert b"5 entries imported into agent:main:from-pipe of bob" in capsysbinary.readouterr().out
    copies = [exported(Session.objects.get(owner=bob, key=f"agent:main:from-{place}")) for place in ("file", "pipe")]
    assert [len(copy) for copy in copies] == [6, 6]


def test_export_warns_about_entries_too_long_to_import(user, make_session, capsysbinary):
    session = make_session(user, "agent:main:main")
    session_service.inject_message(user, session, "ü" * (8 << 20))
    main.run(["export", "--user", user.username, "--session", "main"])
    told = capsysbinary.readouterr()
    assert b"`claw import` will reject it: 1 line" in told.err
    assert told.out.count(b"\n") == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["export", "--user", "nobody", "--session", "main"], "there is no account named 'nobody'"),
        (["export", "--user", "ada", "--session", "main"], "Session not found: main"),
        (["import", "--user", "ada", "--session", "main", "/nonexistent"], "cannot read /nonexistent: No such file"),
        (["import", "--user", "ada", "--session", "a b", "/dev/null"], "nothing was imported: line 1: "),
    ],
)
def test_export_and_import_report_errors(make_user, arguments, words):
    make_user(name="ada")
    with pytest.raises(CommandFailed, match=words):
        main.run(arguments)
    assert not Session.objects.exists()


@pytest.mark.parametrize(("place", "words"), [("", "is not a file"), ("missing/x.jsonl", "cannot write .*: No such file")])
def test_export_to_invalid_path_fails(user, make_session, tmp_path, place, words):
    make_session(user, "agent:main:main")
    with pytest.raises(CommandFailed, match=words):
        main.run(["export", "--user", user.username, "--session", "main", "-o", str(tmp_path / place)])
    assert list(tmp_path.iterdir()) == []
