"""Attachments: stored once, sent once, visible to those who can see the session, deleted if never sent."""

import base64
import os
import time
from datetime import timedelta

import pytest

from agents.context.attachments import copy_to_workspace
from clawsite.infra import clock
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from clawsite.routing.attachments import InlineFile
from clawsite.routing.attachments import store_files as kept_of_message
from sessions_app.events import journal
from sessions_app.events.journal import EntryPosition, NewEntry
from sessions_app.models import Attachment, SessionMember, TranscriptEntry
from sessions_app.run_request import RunRequest
from sessions_app.runs.lifecycle import accept_run
from sessions_app.sessions import attachments, forks
from sessions_app.sessions.attachments import (
    AttachmentTooLarge,
    TooManyAttachments,
    WrongFileType,
    claim_attachments,
    list_visible,
    path_of,
    register,
    store_file,
    sweep_files,
)
from sessions_app.transcript.prompt_content import build_prompt_content

pytestmark = pytest.mark.dialect

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture(autouse=True)
def _directory_of_its_own(settings, tmp_path):
    settings.HOME = tmp_path / "home"


def kept(user, content=b"words", name="a.txt", mime_type="text/plain"):
    return register(user, store_file([content], name, mime_type))


def age(attachment, hours=25):
    Attachment.objects.filter(pk=attachment.pk).update(created_at=clock.now() - timedelta(hours=hours))
    then = time.time() - hours * 3600
    os.utime(path_of(attachment.sha256), (then, then))


def swept():
    attachments.delete_unsent()
    return sweep_files()


def test_file_bytes_are_stored_once_and_privately(user, make_user):
    mine, theirs = kept(user), kept(make_user(), name="b.txt")
    path = path_of(mine.sha256)
    assert mine.pk != theirs.pk
    assert path == path_of(theirs.sha256)
    assert path.read_bytes() == b"words"
    assert path.stat().st_mode & 0o077 == 0
    assert [file for file in path.parent.parent.iterdir() if file.suffix == ".part"] == []


def test_image_type_is_detected_from_bytes(user):
    assert (kept(user, PNG, "a.txt").mime_type, kept(user, PNG, "a.txt").is_image) == ("image/png", True)
    assert not kept(user, b"<svg onload=alert(1)>", "a.svg", "image/svg+xml").is_image
    for name, mime_type in (("a.png", ""), ("a", "image/jpeg")):
        with pytest.raises(WrongFileType, match="is not a valid (PNG|JPEG) image"):
            store_file([b"<script>"], name, mime_type)


def test_oversized_and_empty_files_are_rejected_without_residue(user):
    with pytest.raises(AttachmentTooLarge, match=r"a\.bin exceeds the 5 bytes"):
        store_file([b"123", b"456"], "a.bin", largest=5)
    with pytest.raises(InvalidRequest, match="empty"):
        store_file([], "a.bin")
    assert [file for file in attachments._directory().iterdir() if file.suffix == ".part"] == []


def test_unsent_uploads_per_user_are_limited(user, make_user, make_session, monkeypatch):
    monkeypatch.setattr(attachments, "MAX_UNSENT", 2)
    first = kept(user)
    kept(user, name="b.txt")
    with pytest.raises(TooManyAttachments, match="unsent files"):
        kept(user, name="c.txt")
    kept(make_user())
    claim_attachments(user, make_session(user), [str(first.pk)])
    kept(user, name="c.txt")


async def test_rejected_inline_file_leaves_no_bytes(user, monkeypatch):
    monkeypatch.setattr(attachments, "MAX_UNSENT", 1)
    file = InlineFile("a.txt", "text/plain", base64.b64encode(b"first").decode())
    (known,) = await kept_of_message(user, [file])
    before = stored_bytes()
    with pytest.raises(TooManyAttachments):
        await kept_of_message(user, [InlineFile("b.txt", "text/plain", base64.b64encode(b"second").decode())])
    assert stored_bytes() == before
    assert await kept_of_message(user, [file]) == [known]  # sent again: the existing file is found


def stored_bytes() -> list[str]:
    return sorted(file.name for file in attachments._directory().rglob("*") if file.is_file())


def test_message_claims_its_uploaded_files(user, make_session):
    session, other = make_session(user), make_session(user)
    attachment = kept(user)
    (block,) = claim_attachments(user, session, [str(attachment.pk)])
    assert block["attachmentId"] == str(attachment.pk)
    assert (block["type"], block["name"], block["mimeType"], block["size"]) == ("file", "a.txt", "text/plain", 5)
    assert claim_attachments(user, session, [str(attachment.pk)]) == [block]  # a retry, or the same message again
    (copy,) = claim_attachments(user, other, [str(attachment.pk)])
    assert copy["attachmentId"] != block["attachmentId"]
    assert claim_attachments(user, other, [str(attachment.pk)]) == [copy]


def test_files_of_other_users_cannot_be_claimed_or_seen(user, make_user, make_session):
    attachment = kept(make_user())
    for ids in ([str(attachment.pk)], ["nonsense"], ["00000000-0000-0000-0000-000000000000"]):
        with pytest.raises(NotFound):
            claim_attachments(user, make_session(user), ids)
    with pytest.raises(InvalidRequest, match="at most 10"):
        claim_attachments(user, make_session(user), [str(n) for n in range(11)])


def test_session_readers_can_see_sent_files(user, make_user, make_session):
    guest, session, attachment = make_user(), make_session(user), kept(user)
    SessionMember.objects.create(session=session, user=guest)
    with pytest.raises(NotFound):
        list_visible(guest, [str(attachment.pk)])
    claim_attachments(user, session, [str(attachment.pk)])
    assert list_visible(guest, [str(attachment.pk)]) == [attachment]
    SessionMember.objects.all().delete()
    with pytest.raises(NotFound):
        list_visible(guest, [str(attachment.pk)])


def test_idempotent_request_is_matched_by_attachments(user, make_session):
    session = make_session(user)

    def accept(*files, prompt="look"):
        request = RunRequest(attachments=tuple(claim_attachments(user, session, [str(file.pk) for file in files])))
        return accept_run(user=user, session=session, run_id="k", prompt=prompt, request=request)

    first = accept(kept(user))
    assert accept(kept(user)).pk == first.pk  # uploaded again with the same bytes and name
    for files in ((kept(user, b"other"),), (kept(user, name="b.txt"),), ()):
        with pytest.raises(Conflict):
            accept(*files)


def test_session_without_text_is_titled_after_its_file(user, make_session):
    session = make_session(user)
    brought = claim_attachments(user, session, [str(kept(user, name="Plan.pdf").pk)])
    accept_run(user=user, session=session, run_id="k", prompt="", request=RunRequest(attachments=tuple(brought)))
    session.refresh_from_db()
    assert session.title == "Plan.pdf"
    assert [block["type"] for block in build_prompt_content("", brought)] == ["file"]
    assert "sha256" not in build_prompt_content("x", brought)[1]


def test_only_unsent_files_are_deleted_after_one_day(user, make_session):
    sent, unsent, fresh = kept(user, b"sent"), kept(user, b"unsent"), kept(user, b"fresh")
    claim_attachments(user, make_session(user), [str(sent.pk)])
    age(sent)
    age(unsent)
    assert swept() == 1
    assert set(Attachment.objects.all()) == {sent, fresh}
    assert [path_of(one.sha256).exists() for one in (sent, unsent, fresh)] == [True, False, True]
    assert swept() == 0


def test_sweep_keeps_bytes_still_referenced(user, make_user, make_session):
    unsent, sent = kept(user, b"shared"), kept(make_user(), b"shared")
    claim_attachments(sent.owner, make_session(sent.owner), [str(sent.pk)])
    age(unsent)
    assert swept() == 0
    assert path_of(sent.sha256).exists()


def test_file_uploaded_again_during_sweep_is_kept(user, monkeypatch):
    unsent = kept(user, b"twice")
    age(unsent)
    attachments.delete_unsent()
    move, place = os.replace, path_of(unsent.sha256)

    def replace_late(source, target):
        if str(target).endswith(".aside"):
            monkeypatch.setattr(os, "replace", move)
            kept(user, b"twice")  # between the sweep's check and its move
        move(source, target)

    monkeypatch.setattr(os, "replace", replace_late)
    assert sweep_files() == 0
    assert place.read_bytes() == b"twice"


def test_files_set_aside_by_crashed_sweep_are_restored(user):
    attachment = kept(user, b"aside")
    place = path_of(attachment.sha256)
    os.replace(place, place.with_suffix(".aside"))
    sweep_files()
    assert place.read_bytes() == b"aside"


def test_workspace_copy_overwrites_nothing_and_follows_no_symlink(user, tmp_path):
    attachment = kept(user, b"mine", "notes.txt")
    assert copy_to_workspace(tmp_path, attachment) == copy_to_workspace(tmp_path, attachment) == "uploads/notes.txt"
    (tmp_path / "uploads/notes.txt").write_text("edited by the agent")
    other = copy_to_workspace(tmp_path, attachment)
    assert other == f"uploads/notes-{attachment.sha256[:8]}.txt"
    assert (tmp_path / other).read_bytes() == b"mine"
    assert (tmp_path / "uploads/notes.txt").read_text() == "edited by the agent"
    assert sorted(file.name for file in (tmp_path / "uploads").iterdir()) == sorted(["notes.txt", other.rpartition("/")[2]])
    elsewhere, trapped = tmp_path / "elsewhere", tmp_path / "trapped"
    elsewhere.mkdir()
    trapped.mkdir()
    (trapped / "uploads").symlink_to(elsewhere)
    with pytest.raises(OSError):
        copy_to_workspace(trapped, attachment)
    assert list(elsewhere.iterdir()) == []


def test_fork_gets_its_own_files(user, make_user, make_session):
    friend, session = make_user(), make_session(user)
    blocks = claim_attachments(user, session, [str(kept(user).pk)])
    stranger = {"type": "file", "attachmentId": "not one of ours", "name": "x", "mimeType": "text/plain", "size": 1}
    entry = NewEntry("message", "user", [*blocks, stranger], "", "m1")
    journal.insert_entries([(EntryPosition(session.pk, 1, 1), entry)], clock.now())
    SessionMember.objects.create(session=session, user=friend)
    fork = forks.fork_session(friend, session)
    SessionMember.objects.all().delete()
    mine, unknown = TranscriptEntry.objects.get(session=fork).content
    assert mine["attachmentId"] != blocks[0]["attachmentId"]
    assert [found.session_id for found in list_visible(friend, [mine["attachmentId"]])] == [fork.pk]
    assert unknown == stranger
