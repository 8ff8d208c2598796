"""Uploading and downloading over HTTP."""

import io
from http.cookies import SimpleCookie

import pytest
from django.test import Client

from sessions_app.models import Attachment, SessionMember
from sessions_app.sessions import attachments
from sessions_app.sessions.attachments import claim_attachments

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def browser_of(database):
    def make(user, **options):
        browser = Client(**options)
        browser.force_login(user)
        return browser

    return make


def upload(browser, content=b"words", name="a.txt", content_type="text/plain", **headers):
    file = io.BytesIO(content)
    file.name = name
    file.content_type = content_type
    return browser.post("/attachments/", {"file": file}, headers=headers)


def test_file_is_uploaded_and_served_as_download(user, browser_of):
    browser = browser_of(user)
    answer = upload(browser, b"<script>alert(1)</script>", "page.html", "text/html")
    assert answer.status_code == 201
    told = answer.json()
    assert (told["name"], told["mimeType"], told["size"]) == ("page.html", "text/html", 25)
    down = browser.get(f"/attachments/{told['id']}/")
    assert down.content == b"<script>alert(1)</script>"
    assert down["Content-Type"] == "application/octet-stream"
    assert down["Content-Disposition"] == 'attachment; filename="page.html"'
    assert down["X-Content-Type-Options"] == "nosniff"
    assert down["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert down["Cache-Control"].startswith("private")
    assert browser.head(f"/attachments/{told['id']}/").status_code == 200


@pytest.mark.parametrize(
    "name", ["cat.png", "cat.html", 'x"; filename="evil.html', "a\r\nSet-Cookie: x=1", "../../x.png", "图片.png"]
)
def test_image_is_served_inline_with_its_filename(user, browser_of, name):
    browser = browser_of(user)
    row = attachments.register(user, attachments.store_file([PNG], name, "text/html"))
    down = browser.get(f"/attachments/{row.pk}/")
    assert down["Content-Type"] == "image/png"
    assert down["Content-Disposition"].startswith("inline; filename")
    assert down.headers.keys().isdisjoint({"Set-Cookie"})
    assert down.cookies == SimpleCookie() or "x" not in down.cookies
    assert ".." not in down["Content-Disposition"] and "evil.html;" not in down["Content-Disposition"]


def test_only_permitted_users_can_fetch_attachment(user, make_user, make_session, browser_of):
    guest, stranger = make_user(), make_user()
    sent = upload(browser_of(user)).json()["id"]
    address = f"/attachments/{sent}/"
    assert [browser_of(one).get(address).status_code for one in (user, guest, stranger)] == [200, 404, 404]
    session = make_session(user)
    claim_attachments(user, session, [sent])
    SessionMember.objects.create(session=session, user=guest)
    assert [browser_of(one).get(address).status_code for one in (user, guest, stranger)] == [200, 200, 404]
    assert Client().get(address).status_code == 401
    assert browser_of(user).post(address).status_code == 405


def test_rejected_upload_returns_error_message(user, make_user, browser_of, monkeypatch):
    browser = browser_of(user)
    monkeypatch.setattr(attachments, "MAX_FILE_BYTES", 100)
    refused = [
        (upload(browser, b"x" * 70_000), 413),  # judged by the declared length
        (upload(browser, b"not an image", "a.png", "image/png"), 415),
        (upload(browser, b""), 400),
        (browser.post("/attachments/", {}), 400),
        (browser.post("/attachments/", b"{}", content_type="application/json"), 400),
        (upload(Client()), 401),
        (upload(browser_of(make_user("Auditor"))), 403),
    ]
    for answer, status in refused:
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
    assert browser.get("/attachments/").status_code == 405
    assert Attachment.objects.count() == 0


def test_cross_site_upload_is_rejected(user, browser_of, settings):
    settings.STORAGES = {**settings.STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
    browser = browser_of(user, enforce_csrf_checks=True)
    assert upload(browser).status_code == 403
    browser.get("/")
    token = browser.cookies["clawsite_csrf"].value
    assert upload(browser, **{"X-CSRFToken": token}).status_code == 201


def test_attachment_with_lost_bytes_is_reported_missing(user, browser_of):
    browser = browser_of(user)
    sent = upload(browser, b"lost").json()["id"]
    attachments.path_of(Attachment.objects.get(pk=sent).sha256).unlink()
    assert browser.get(f"/attachments/{sent}/").status_code == 404
