"""The coding tools in real runs: their effects, and the model's result if they fail, are stopped, or return too much."""

import base64
import itertools
import json
import struct
import threading
import zlib
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import runner
from agents.context.workspace import ensure_workspace
from agents.models import Agent
from agents.tool_calls import turns
from clawsite.infra.errors import Unavailable
from sessions_app.models import Attachment, TranscriptEntry
from sessions_app.runs import lifecycle
from sessions_app.sessions import attachments
from sessions_app.sessions.attachments import path_of
from sessions_app.sessions.forks import fork_session
from tests.harness.worker import WorkerHarness, calls_of, events_of, transcript_of
from tools_app.builtin.files.workspace import Workspace

DEEP = "/".join(["d" * 200] * 7)  # a path that is more than a KB long by itself
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"


def png(width: int, height: int, *, padding: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0" * (width + 1) * height) if width * height < 1 << 20 else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"tEXt", b"x" * padding)
        + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )


@pytest.fixture
def files(harness: WorkerHarness):
    """The workspace, with some files that are removed afterwards."""
    root: Path = ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk)
    (root / "a.txt").write_text("one\n")
    (root / "long.txt").write_text("".join(f"line {number} of many\n" for number in range(2000)))
    (root / "dot.png").write_bytes(png(3, 2))
    return root


@pytest.fixture
def hanging(monkeypatch):
    """A disk that doesn't respond until the test ends."""
    answers, asked = threading.Event(), threading.Event()
    open_root = Workspace._open_root

    @contextmanager
    def waiting(self, path):
        asked.set()
        answers.wait(60)
        with open_root(self, path) as root:
            yield root

    monkeypatch.setattr(Workspace, "_open_root", waiting)
    yield asked
    answers.set()


def call(name: str, arguments: dict, then: str = "done") -> str:
    return f"[[tool={name} args={json.dumps(arguments)}]] [[text={then}]]"


async def used(harness: WorkerHarness, name: str, **arguments):
    """Return the call's row and the model's result, of a run with one call."""
    run = await harness.answer(call(name, arguments))
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    (row,) = calls_of(run)
    (told,) = [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "tool"][-1:]
    assert told == transcript_of(run)[2][1]
    return row, told


GOOD = {
    "read": ({"path": "a.txt"}, "one"),
    "write": ({"path": "new.txt", "content": ""}, "created `new.txt` (0 bytes)"),
    "edit": ({"path": "a.txt", "old_text": "one", "new_text": ""}, "replaced 1 occurrence in `a.txt`"),
    "glob": ({"pattern": "*.txt"}, "a.txt\nlong.txt"),
    "grep": ({"pattern": "^on"}, "a.txt:1: one"),
    "apply_patch": ({"input": PATCH}, "updated `a.txt`"),
    "image": ({"path": "dot.png"}, "dot.png: image/png, 3 x 2 pixels, "),
}


@pytest.mark.parametrize("name", GOOD)
async def test_each_tool_works(harness: WorkerHarness, files, name):
    arguments, words = GOOD[name]
    row, told = await used(harness, name, **arguments)
    assert row.status == "finished"
    assert told.startswith(words)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read", {"file_path": "a.txt"}, "one"),
        ("write", {"filePath": "b.txt", "content": "x"}, "created `b.txt`"),
        ("edit", {"file_path": "a.txt", "old_string": "one", "newText": "two"}, "replaced 1 occurrence"),
        ("image", {"image": "dot.png"}, "dot.png: image/png"),
    ],
)
async def test_common_tool_name_aliases_are_accepted(harness: WorkerHarness, files, name, arguments, words):
    row, told = await used(harness, name, **arguments)
    assert row.status == "finished"
    assert told.startswith(words)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read", {}, "Missing required parameter: path"),
        ("read", {"path": "a.txt", "offset": 0}, "`offset`: Input should be greater than or equal to 1"),
        ("write", {"path": " ", "content": "x"}, "Missing required parameter: path"),
        ("edit", {"path": "a.txt"}, "Missing required parameter: old_text, new_text"),
        ("glob", {"pattern": "*", "depth": 3}, "`depth`: Extra inputs are not permitted"),
        ("grep", {"pattern": "x", "max_matches": "many"}, "`max_matches`: Input should be a valid integer"),
        ("apply_patch", {"input": ""}, "Missing required parameter: input"),
        ("image", {"path": 7}, "`path`: Input should be a valid string"),
    ],
)
async def test_invalid_parameters_return_an_error_and_run_nothing(harness: WorkerHarness, files, name, arguments, words):
    row, told = await used(harness, name, **arguments)
    assert (row.status, row.result["details"]) == ("failed", {"code": "invalid_arguments"})
    assert told.startswith(f"invalid arguments for `{name}`: {words}")
    assert "It did not run." in told


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read", {"path": "../../secret"}, "outside the workspace"),
        ("write", {"path": "a.txt/b", "content": "x"}, "part of the path is a file"),
        ("edit", {"path": "a.txt", "old_text": "two", "new_text": "x"}, "was not found in `a.txt`"),
        ("glob", {"pattern": "../*"}, "`..` is not allowed"),
        ("grep", {"pattern": "("}, "unterminated subpattern"),
        ("apply_patch", {"input": PATCH.replace("-one", "-two")}, "nothing was changed: `a.txt` does not have these lines"),
        ("image", {"path": "a.txt"}, "`a.txt` is not a PNG, JPEG, GIF or WebP image"),
        ("image", {"path": "none.png"}, "neither a file in the workspace nor an image attached"),
    ],
)
async def test_tool_failures_return_an_error_message(harness: WorkerHarness, files, name, arguments, words):
    row, told = await used(harness, name, **arguments)
    assert row.status == "failed"
    assert words in told


@pytest.mark.parametrize("name", GOOD)
async def test_running_call_can_be_aborted(harness: WorkerHarness, files, hanging, eventually, name):
    run_pk = harness.send(call(name, GOOD[name][0]))
    await eventually(hanging.is_set)
    lifecycle.request_abort(user=harness.user, session=harness.session)
    run = await harness.ended(run_pk)
    assert (run.status, run.reason) == ("aborted", "rpc")
    (row,) = calls_of(run)
    assert (row.status, row.result["details"]) == ("failed", {"code": "stopped"})
    assert transcript_of(run)[-1] == ("toolResult", "stopped: the run ended (rpc) before this call did")


@pytest.mark.parametrize("name", GOOD)
async def test_timed_out_call_is_stopped_and_run_continues(harness: WorkerHarness, files, hanging, settings, name):
    settings.TOOL_TIMEOUT_SECONDS = 0.1
    row, told = await used(harness, name, **GOOD[name][0])
    assert (row.status, row.result["details"]) == ("failed", {"code": "tool_timeout"})
    assert told.startswith(f"tool_timeout: `{name}` was stopped after 0.1 s")
    changes = name in ("write", "edit", "apply_patch")
    assert ("It may have done part of its work" if changes else "nothing changed") in told


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": "long.txt"}),
        ("grep", {"pattern": "many"}),
        ("glob", {"pattern": "many/*"}),
        ("write", {"path": f"{DEEP}/new.txt", "content": "x" * 50_000}),
        ("edit", {"path": f"{DEEP}/old.txt", "old_text": "one", "new_text": "x" * 50_000}),
        (
            "apply_patch",
            {"input": "\n".join(["*** Begin Patch", *(f"*** Add File: x/{n}\n+" for n in range(99)), "*** End Patch"])},
        ),
    ],
)
async def test_long_output_is_truncated_in_the_middle(harness: WorkerHarness, files, settings, name, arguments):
    settings.TOOL_RESULT_KB = 1
    (files / "many").mkdir()
    (files / DEEP).mkdir(parents=True)
    (files / DEEP / "old.txt").write_text("one")
    for number in range(100):
        (files / "many" / f"file-{number:03}").touch()
    row, told = await used(harness, name, **arguments)
    assert row.status == "finished"
    assert "showing the first 716 and the last 308 of " in told
    assert len(told) < 1200


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (png(2, 2, padding=5 << 20), "the image limit is 5.0 MB"),
        (png(9000, 10), "is 9000 x 10 pixels; the limit is 8000 per side"),
        (b"\x89PNG\r\n\x1a\n broken", "is damaged"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a PNG, JPEG, GIF or WebP image"),
    ],
    ids=["bytes", "pixels", "damaged", "svg"],
)
async def test_unsupported_images_are_rejected(harness: WorkerHarness, files, content, words):
    (files / "odd.png").write_bytes(content)
    row, told = await used(harness, "image", path="odd.png")
    assert row.status == "failed"
    assert words in told
    assert not Attachment.objects.exists()


async def test_image_reaches_model_and_card_without_bytes_in_rows(harness: WorkerHarness, files):
    content = png(4, 4, padding=1 << 20)
    (files / "large.png").write_bytes(content)
    row, _ = await used(harness, "image", path="large.png")
    kept = Attachment.objects.get()
    assert (kept.session_id, kept.name, kept.mime_type, kept.is_image) == (harness.session.pk, "large.png", "image/png", True)
    assert path_of(kept.sha256).read_bytes() == content
    block = {"type": "image", "attachmentId": str(kept.pk), "mimeType": "image/png", "name": "large.png", "size": len(content)}
    assert row.result["content"][1] == block
    (ended,) = [event.data for event in events_of(row.run) if event.stream == "tool" and event.data["phase"] == "result"]
    assert ended["result"]["content"][1] == block
    entry = row.run.entries.get(role="toolResult")
    assert (entry.content[1], entry.meta["imageIds"]) == (block, [str(kept.pk)])
    last = harness.model.bodies[-1]["messages"][-2:]
    assert [message["role"] for message in last] == ["tool", "user"]
    words, image = last[1]["content"]
    assert words["text"] == '[Not written by the user: images that tools returned, in this order: "large.png" of image]'
    assert image["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(content).decode()}"


async def test_duplicate_image_is_stored_once(harness: WorkerHarness, files):
    await used(harness, "image", path="dot.png")
    await used(harness, "image", path="dot.png")
    assert Attachment.objects.count() == 1


async def test_images_follow_all_tool_results(harness: WorkerHarness, files):
    (files / "other.png").write_bytes(png(5, 5))
    prompt = '[[tool=image args={"path":"dot.png"}]] [[tool=image args={"path":"other.png"} parallel=1]] [[text=done]]'
    await harness.answer(prompt)
    last = harness.model.bodies[-1]["messages"][-4:]
    assert [message["role"] for message in last] == ["assistant", "tool", "tool", "user"]
    assert [part["type"] for part in last[3]["content"]] == ["text", "image_url", "image_url"]


async def test_host_secret_does_not_reach_model_or_transcript(harness: WorkerHarness, files, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "a-secret-of-this-host")
    (files / "a.txt").write_text("key: a-secret-of-this-host\n")
    row, told = await used(harness, "read", path="a.txt")
    assert told == "key: [redacted]"
    assert "a-secret" not in json.dumps([row.result, harness.model.bodies[-1], [event.data for event in events_of(row.run)]])


def repeated(times: int, name: str = "read", **arguments) -> str:
    return " ".join(f"[[tool={name} args={json.dumps(arguments)}]]" for _ in range(times)) + " [[text=done]]"


async def test_looping_model_is_warned_then_stopped(harness: WorkerHarness, files):
    run = await harness.answer(repeated(7, path="a.txt"))
    assert run.status == "completed"
    results = [text for role, text in transcript_of(run) if role == "toolResult"]
    assert results[:3] == ["one"] * 3
    assert [text.startswith("one\n[repeated: the ") for text in results[3:5]] == [True, True]
    assert [text.startswith("loop_detected: `read` was called 5 times") for text in results[5:]] == [True, True]
    assert [row.status for row in calls_of(run)] == ["finished"] * 5 + ["failed"] * 2
    assert calls_of(run)[5].result["details"] == {"code": "loop_detected", "repeats": 5}


async def test_repeated_call_within_one_turn_is_stopped(harness: WorkerHarness, files):
    first, *more = ['[[tool=read args={"path":"a.txt"}%s]]' % ("" if number == 0 else " parallel=1") for number in range(7)]
    run = await harness.answer(" ".join([first, *more, "[[text=done]]"]))
    assert [row.status for row in calls_of(run)] == ["finished"] * 5 + ["failed"] * 2
    told = {row.call_id: row.result for row in calls_of(run)}
    assert [result["details"].get("code") for result in told.values()][5:] == ["loop_detected"] * 2


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("browser", '{"url":"x"}', "tool_not_allowed: `browser` "),
        ("no_such_tool", "{}", "tool_not_allowed: `no_such_tool` is unavailable in this run"),
        ("read", '"{broken"', "the arguments could not be read: "),
    ],
    ids=["refused", "made up", "unreadable"],
)
async def test_repeated_call_that_never_runs_is_a_loop(harness: WorkerHarness, files, name, arguments, reason):
    run = await harness.answer(f"[[tool={name} args={arguments}]] " * 7 + "[[text=done]]")
    assert run.status == "completed"
    results = [text for role, text in transcript_of(run) if role == "toolResult"]
    assert [text.startswith(reason) for text in results[:5]] == [True] * 5
    assert ["[repeated: " in text for text in results[:5]] == [False] * 3 + [True] * 2
    assert [text.startswith(f"loop_detected: `{name}` was called 5 times") for text in results[5:]] == [True, True]
    # The stored result is what the model got, and a denial stays one in the records.
    told = [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "tool"]
    assert told == results
    assert {row.status for row in calls_of(run)} == {"failed" if name == "read" else "refused"}


@pytest.mark.parametrize(
    ("module", "step"), [(runner, "ask_model"), (turns, "run_tool_calls")], ids=["before the answer", "before the call"]
)
async def test_loop_detection_survives_worker_takeover(harness: WorkerHarness, files, monkeypatch, module, step):
    really, times = getattr(module, step), itertools.count(1)

    def lost_at_the_sixth(*args, **options):
        if next(times) == 6:
            raise Unavailable("the database is gone for a moment")
        return really(*args, **options)

    monkeypatch.setattr(module, step, lost_at_the_sixth)
    run = await harness.answer(repeated(6, path="a.txt"))
    results = [text for role, text in transcript_of(run) if role == "toolResult"]
    assert (run.status, run.lease_token > 1) == ("completed", True)
    assert results[5].startswith("loop_detected: `read` was called 5 times")


async def test_new_message_resets_loop_detection(harness: WorkerHarness, files):
    await harness.answer(repeated(6, path="a.txt"))
    _, told = await used(harness, "read", path="a.txt")
    assert told == "one"


async def test_forked_session_includes_images(harness: WorkerHarness, files):
    row, _ = await used(harness, "image", path="dot.png")
    copy = fork_session(harness.user, harness.session)
    entry = TranscriptEntry.objects.get(session=copy, role="toolResult")
    assert entry.meta["imageIds"] == [entry.content[1]["attachmentId"]]
    assert Attachment.objects.get(pk=entry.meta["imageIds"][0]).session_id == copy.pk
    assert entry.meta["imageIds"] != [row.result["content"][1]["attachmentId"]]


async def test_image_storage_failure_keeps_the_result(harness: WorkerHarness, files, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attachments, "store_file", full)
    row, told = await used(harness, "image", path="dot.png")
    assert row.status == "finished"
    assert row.result["content"][1] == {"type": "text", "text": "[an image could not be stored]"}
    assert "dot.png: image/png" in told


async def test_image_is_included_in_the_next_request(harness: WorkerHarness, files):
    await used(harness, "image", path="dot.png")
    before = harness.model.bodies[-1]["messages"]
    await harness.answer("[[text=still]] and now?")
    assert (
        harness.model.bodies[-1]["messages"][: len(before)] == before
    )  # the earlier messages are unchanged, so that prompts stay cacheable


async def test_model_without_vision_is_not_offered_the_tool(harness: WorkerHarness, files, settings):
    settings.DEFAULT_MODEL = "openai/gpt-3.5-turbo"
    run = await harness.answer(call("image", {"path": "dot.png"}))
    assert calls_of(run)[0].status == "refused"


async def test_gemini_model_gets_compatible_schemas(harness: WorkerHarness, settings):
    settings.DEFAULT_MODEL = "openai/gemini-like"
    await harness.answer("[[text=ok]]")
    shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in harness.model.bodies[-1]["tools"]}
    assert shown["read"]["properties"]["limit"].keys() == {"type", "description", "default"}
    assert "additionalProperties" not in shown["read"]
