"""Attaching files with a fake server: ways to attach, progress, limits, failures."""

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, Route, expect

from tests.web.chat_page import start_run
from tests.web.fake_gateway import FakeGateway


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# One red pixel.
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + chunk(b"IEND", b"")
)
Answer = Callable[[Route], None]


class Uploads:
    """Handles uploads instead of the server."""

    def __init__(self, page: Page) -> None:
        self.taken: list[str] = []
        self.answer: Answer = self.accept
        page.route("**/attachments/", lambda route: self.answer(route))
        page.route("**/attachments/*/", lambda route: route.fulfill(body=PNG, content_type="image/png"))

    def accept(self, route: Route) -> None:
        body = (route.request.post_data_buffer or b"").decode("latin-1")
        assert route.request.headers["x-csrftoken"]
        name = body.split('filename="')[1].split('"')[0]
        kind = body.split("Content-Type: ")[1].split("\r\n")[0]
        self.taken.append(name)
        answer = {"id": f"a{len(self.taken)}", "name": name, "mimeType": kind, "size": 70}
        route.fulfill(status=201, body=json.dumps(answer), content_type="application/json")


@pytest.fixture
def uploads(opened: Page) -> Uploads:
    return Uploads(opened)


def choose(page: Page, *files: FilePayload) -> None:
    page.locator("#files").set_input_files(list(files))


def a_file(name: str, size: int = 3, kind: str = "text/plain") -> FilePayload:
    return FilePayload(name=name, mimeType=kind, buffer=b"x" * size)


def field(page: Page) -> Any:
    return page.get_by_label("Message", exact=True)


def transfer(page: Page, target: str, kind: str, name: str, mime: str = "image/png", text: str = "") -> None:
    """Paste or drop a file, as a browser would."""
    page.evaluate(
        """([target, kind, name, mime, text, bytes]) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], name, { type: mime }));
          if (text) data.setData("text/plain", text);
          const [Kind, key] = kind === "paste" ? [ClipboardEvent, "clipboardData"] : [DragEvent, "dataTransfer"];
          document.querySelector(target).dispatchEvent(new Kind(kind, { [key]: data, bubbles: true, cancelable: true }));
        }""",
        [target, kind, name, mime, text, list(PNG)],
    )


def test_files_upload_immediately_and_are_sent_with_message(opened: Page, gateway: FakeGateway, uploads: Uploads) -> None:
    with opened.expect_file_chooser() as chooser:
        opened.get_by_role("button", name="Attach files").click()
    chooser.value.set_files([a_file("notes.txt"), FilePayload(name="dot.png", mimeType="image/png", buffer=PNG)])
    rows = opened.locator("#attachments .upload")
    expect(rows.locator(".name")).to_have_text(["notes.txt", "dot.png"])
    expect(opened.locator('.upload[data-state="done"]')).to_have_count(2)
    expect(rows.nth(1).locator("canvas")).to_be_visible()
    field(opened).fill("Look at these")
    field(opened).press("Enter")
    (sent,) = gateway.wait_for_calls("chat.send")
    assert sent["message"] == "Look at these"
    assert sorted(each["id"] for each in sent["attachments"]) == ["a1", "a2"]
    expect(opened.locator("#attachments")).to_be_hidden()
    expect(opened.locator(".message.user .attached")).to_have_count(2)


def test_file_can_be_sent_without_text(opened: Page, gateway: FakeGateway, uploads: Uploads) -> None:
    choose(opened, a_file("notes.txt"))
    opened.get_by_role("button", name="Send", exact=True).click()
    (sent,) = gateway.wait_for_calls("chat.send")
    assert (sent["message"], sent["attachments"]) == ("", [{"id": "a1"}])


def test_pasted_images_attach_unless_text_accompanies_them(opened: Page, uploads: Uploads) -> None:
    transfer(opened, "#message", "paste", "image.png", text="a cell of a table")
    expect(opened.locator("#attachments")).to_be_hidden()
    transfer(opened, "#message", "paste", "image.png")
    transfer(opened, "#message", "paste", "image.png")
    expect(opened.locator('.upload[data-state="done"]')).to_have_count(2)
    assert len(set(uploads.taken)) == 2  # the files' names differ


def test_files_can_be_dropped_anywhere_on_the_page(opened: Page, uploads: Uploads) -> None:
    transfer(opened, "#log", "dragover", "dot.png")
    expect(opened.locator("#drop")).to_be_visible()
    transfer(opened, "#log", "drop", "dot.png")
    expect(opened.locator("#drop")).to_be_hidden()
    expect(opened.locator(".upload .name")).to_have_text("dot.png")


def test_pending_upload_blocks_sending_and_can_be_cancelled(opened: Page, gateway: FakeGateway, uploads: Uploads) -> None:
    held: list[Route] = []
    uploads.answer = held.append
    choose(opened, a_file("film.mp4", 200_000, "video/mp4"))
    expect(opened.get_by_role("progressbar")).to_be_visible()
    expect(opened.locator("#composer-note")).to_have_text("Wait until the files are uploaded")
    field(opened).fill("Now")
    field(opened).press("Enter")
    assert gateway.calls("chat.send") == []
    expect(field(opened)).to_have_value("Now")
    opened.get_by_role("button", name="Remove film.mp4").click()
    expect(opened.locator("#attachments")).to_be_hidden()
    expect(field(opened)).to_be_focused()
    field(opened).press("Enter")
    (sent,) = gateway.wait_for_calls("chat.send")
    assert "attachments" not in sent


def test_rejected_upload_shows_reason_and_failed_upload_retries(opened: Page, gateway: FakeGateway, uploads: Uploads) -> None:
    uploads.answer = lambda route: route.fulfill(
        status=415, body=json.dumps({"error": {"code": "INVALID_REQUEST", "message": "programs are not accepted"}})
    )
    choose(opened, a_file("run.exe"))
    state = opened.locator(".upload .state")
    expect(state).to_have_text("programs are not accepted")
    expect(opened.get_by_role("button", name="Try again")).to_be_hidden()
    field(opened).fill("Hi")
    field(opened).press("Enter")
    expect(opened.locator("#composer-note")).to_have_text("Remove the file that was not uploaded, or try again")
    assert gateway.calls("chat.send") == []
    opened.get_by_role("button", name="Remove run.exe").click()
    uploads.answer = lambda route: route.abort()
    choose(opened, a_file("notes.txt"))
    expect(state).to_have_text("Connection lost")
    uploads.answer = uploads.accept
    opened.get_by_role("button", name="Try again").click()
    expect(opened.locator('.upload[data-state="done"]')).to_have_count(1)
    expect(opened.locator("#composer-note")).to_be_empty()


def test_excess_and_oversized_files_are_never_uploaded(opened: Page, uploads: Uploads) -> None:
    choose(opened, *[a_file(f"{n}.txt") for n in range(11)], a_file("empty.txt", 0))
    expect(opened.locator('.upload[data-state="done"]')).to_have_count(10)
    expect(opened.get_by_role("alert")).to_have_text("You can attach up to 10 files to a message.")
    opened.get_by_role("button", name="Remove 0.txt").click()
    expect(opened.get_by_role("button", name="Remove 1.txt")).to_be_focused()
    choose(opened, a_file("empty.txt", 0))
    expect(opened.get_by_role("alert")).to_have_text("empty.txt is empty or a folder.")
    opened.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(21 * 1024 * 1024)], "film.mp4"));
          document.querySelector("#main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
        }"""
    )
    expect(opened.get_by_role("alert")).to_have_text("film.mp4 is too large; the limit is 20 MB.")
    assert len(uploads.taken) == 10


def test_attachments_are_kept_per_conversation(opened: Page, uploads: Uploads) -> None:
    choose(opened, a_file("notes.txt"))
    expect(opened.locator(".upload")).to_have_count(1)
    opened.evaluate("location.hash = 'agent:main:other'")
    expect(opened.locator(".upload")).to_have_count(0)
    opened.evaluate("location.hash = ''")
    expect(opened.locator(".upload .name")).to_have_text("notes.txt")


def test_recalled_message_restores_its_files(opened: Page, gateway: FakeGateway, uploads: Uploads) -> None:
    start_run(gateway)
    choose(opened, FilePayload(name="dot.png", mimeType="image/png", buffer=PNG))
    field(opened).fill("Look")
    expect(opened.locator('.upload[data-state="done"]')).to_have_count(1)
    field(opened).press("Enter")
    (sent,) = gateway.wait_for_calls("chat.send")
    gateway.send_event(sent["idempotencyKey"], "lifecycle", phase="accepted", prompt="Look")
    expect(opened.locator("#queue .text")).to_have_text("Look (with a file)")
    opened.get_by_role("button", name="Recall and edit").click()
    gateway.send_event(sent["idempotencyKey"], "lifecycle", phase="end", aborted=True)
    expect(field(opened)).to_have_value("Look")
    expect(opened.locator(".upload img")).to_be_visible()
