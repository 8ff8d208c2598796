"""Attached files reach the model, and the workspace where tools can read them."""

from agents.context.workspace import ensure_workspace
from agents.models import Agent
from sessions_app.events.journal import NewEntry, NewEvent, insert_session_event
from sessions_app.models import Attachment
from sessions_app.run_request import RunRequest
from sessions_app.sessions.attachments import claim_attachments, path_of, register, store_file
from tests.harness.worker import WorkerHarness, transcript_of

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def attach(harness: WorkerHarness, *files: tuple[str, bytes]) -> dict:
    rows = [register(harness.user, store_file([content], name)) for name, content in files]
    return {"attachments": claim_attachments(harness.user, harness.session, [str(row.pk) for row in rows])}


def asked(harness: WorkerHarness) -> list:
    return [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "user"]


async def test_images_reach_model_and_files_reach_workspace(harness: WorkerHarness):
    options = attach(harness, ("cat.png", PNG), ("notes.md", "# Grüße\n```x```".encode()), ("data.bin", b"\0\1\2"))
    run = await harness.answer("[[text=seen]] what is this?", request=RunRequest.from_json(options))
    assert run.status == "completed"
    ((words, image),) = asked(harness)
    assert image == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}}
    assert words["text"] == (
        "[[text=seen]] what is this?\n\n"
        '[Attached file "notes.md" (application/octet-stream, 17 bytes), in the workspace as uploads/notes.md]\n'
        "````\n# Grüße\n```x```\n````\n\n"
        '[Attached file "data.bin" (application/octet-stream, 3 bytes), in the workspace as uploads/data.bin; '
        "its content is not shown here]"
    )
    uploads = ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk) / "uploads"
    assert (uploads / "notes.md").read_bytes() == "# Grüße\n```x```".encode()
    assert sorted(file.name for file in uploads.iterdir()) >= ["data.bin", "notes.md"]
    assert not (uploads / "cat.png").exists()
    (uploads / "data.bin").unlink()
    (uploads / "notes.md").unlink()
    await harness.answer("[[text=still]] and now?")
    assert asked(harness)[0] == [
        words,
        image,
    ]  # the prompt is unchanged, although the files are gone, so that prompts stay cacheable


async def test_tool_reads_attached_file(harness: WorkerHarness):
    options = attach(harness, ("list.txt", b"milk\n" * 20_000))
    run = await harness.answer(
        '[[tool=read args={"path":"uploads/list.txt"}]] [[text=done]]', request=RunRequest.from_json(options)
    )
    assert run.status == "completed"
    assert transcript_of(run)[2][1].startswith("milk")
    assert "milk" not in asked(harness)[0]


async def test_model_without_vision_gets_attachment_note(harness: WorkerHarness, settings):
    settings.DEFAULT_MODEL = "openai/gpt-3.5-turbo"
    run = await harness.answer("[[text=ok]]", request=RunRequest.from_json(attach(harness, ("cat.png", PNG))))
    assert run.status == "completed"
    (words,) = asked(harness)
    called = '[Attached image "cat.png" (image/png, 28 bytes), in the workspace as uploads/cat.png'
    assert words == f"[[text=ok]]\n\n{called}; not shown: this model takes no images]"


async def test_message_without_text_gets_a_reply(harness: WorkerHarness, settings):
    settings.DEFAULT_MODEL = "demo/clawsite"
    run = await harness.answer("", request=RunRequest.from_json(attach(harness, ("cat.png", PNG))))
    assert "`cat.png`" in transcript_of(run)[-1][1]


async def test_missing_attachment_bytes_do_not_stop_the_run(harness: WorkerHarness):
    options = attach(harness, ("gone.txt", b"once"))
    path_of(options["attachments"][0]["sha256"]).unlink()
    run = await harness.answer("[[text=ok]]", request=RunRequest.from_json(options))
    assert run.status == "completed"
    assert "is no longer available]" in asked(harness)[0]


async def test_imported_transcript_cannot_reference_foreign_file(harness: WorkerHarness, make_user):
    theirs = register(make_user(), store_file([b"secret words"], "secret.txt"))
    block = {"type": "file", "attachmentId": str(theirs.pk), "mimeType": "text/plain", "name": "secret.txt", "size": 12}
    entry = NewEntry("message", "user", [{"type": "text", "text": "before"}, block], "before", "m1")
    insert_session_event(harness.session.pk, NewEvent("session", {"change": "imported"}), entries=[entry])
    await harness.answer("[[text=ok]]")
    assert asked(harness) == ["before", "[[text=ok]]"]
    assert Attachment.objects.get().saved_as == ""
