"""Sign-in, sign-out and the first administrator's page, through Django's test client."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from clawsite.accounts import tokens
from clawsite.accounts.change_notices import AccountChanged
from clawsite.accounts.models import FailedSignIns, User
from clawsite.accounts.sign_in import first_admin

pytestmark = pytest.mark.usefixtures("database")

PASSWORD = "correct horse battery"


@pytest.fixture
def ada() -> User:
    user = User.objects.create_user("ada", password=PASSWORD)
    user.groups.add(Group.objects.get(name="User"))
    return user


def sign_in(client: Client, name: str = "ada", password: str = PASSWORD, **more: Any) -> Any:
    return client.post("/sign-in/", {"username": name, "password": password, **more})


def test_anonymous_user_is_redirected_to_sign_in(client: Client) -> None:
    response = client.get("/")
    assert (response.status_code, response["Location"]) == (302, "/sign-in/?next=/")


def test_sign_in_redirects_to_chat(client: Client, ada: User) -> None:
    response = sign_in(client)
    assert (response.status_code, response["Location"]) == (302, "/")
    page = client.get("/")
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]


def test_sign_in_error_does_not_reveal_wrong_field(client: Client, ada: User) -> None:
    wrong, unknown = sign_in(client, password="nope"), sign_in(client, name="nobody")
    assert (wrong.status_code, unknown.status_code) == (400, 400)

    def alerts(response: Any) -> list[str]:
        return re.findall(r'role="alert">(.*?)<', response.content.decode())

    assert alerts(wrong) == alerts(unknown) != []


def test_sign_in_form_requires_csrf_token(ada: User) -> None:
    client = Client(enforce_csrf_checks=True)
    assert sign_in(client).status_code == 403
    page = client.get("/sign-in/").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token
    assert sign_in(client, csrfmiddlewaretoken=token[1]).status_code == 302
    assert client.post("/sign-out/").status_code == 403


def test_correct_password_is_throttled_after_many_failures(client: Client, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(6):
        assert sign_in(client, password="nope").status_code == 400
    asked = []
    monkeypatch.setattr("django.contrib.auth.forms.authenticate", lambda *args, **kwargs: asked.append(kwargs))
    response = sign_in(client)
    assert response.status_code == 429
    assert response["Retry-After"] == "2"
    assert "Try again in 2 seconds" in response.content.decode()
    assert asked == []  # the limit applies before the password is checked
    assert "_auth_user_id" not in client.session


def test_successful_sign_in_resets_failure_count(client: Client, ada: User) -> None:
    for _ in range(10):
        assert sign_in(client).status_code == 302
    assert list(FailedSignIns.objects.values_list("failures", flat=True)) == [0]


def test_forwarded_address_needs_trusted_proxy(client: Client, ada: User, settings: Any) -> None:
    for n in range(6):
        client.post("/sign-in/", {"username": "x", "password": "x"}, headers={"x-forwarded-for": f"203.0.113.{n}"})
    assert sign_in(client).status_code == 429
    settings.TRUSTED_PROXIES = 1
    response = client.post("/sign-in/", {"username": "ada", "password": PASSWORD}, headers={"x-forwarded-for": "203.0.113.9"})
    assert response.status_code == 302


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "http:///evil.example",
        "\thttps://evil.example",
    ],
)
def test_sign_in_never_redirects_to_another_site(client: Client, ada: User, elsewhere: str) -> None:
    assert sign_in(client, next=elsewhere)["Location"] == "/"
    assert client.get("/sign-in/", {"next": elsewhere})["Location"] == "/"
    assert client.get("/admin/login/", {"next": elsewhere}).status_code == 403


def test_sign_in_redirects_to_requested_page(client: Client, ada: User) -> None:
    assert 'value="/admin/"' in client.get("/sign-in/?next=/admin/").content.decode()
    assert sign_in(client, next="/runs/?x=1")["Location"] == "/runs/?x=1"


def test_sign_out_requires_post_and_ends_session(client: Client, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    sign_in(client)
    monkeypatch.setattr("clawsite.infra.bus.publish", told.append)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/").status_code == 302
    assert told == [AccountChanged(ada.pk)]


def test_service_account_cannot_sign_in_with_password(client: Client) -> None:
    service = tokens.ensure_service_user("somebody")
    service.set_password(PASSWORD)
    service.save()
    assert sign_in(client, name=service.username).status_code == 400


def test_inactive_account_cannot_sign_in(client: Client, ada: User) -> None:
    User.objects.update(is_active=False)
    assert sign_in(client).status_code == 400


def test_admin_login_redirects_to_sign_in_page(client: Client, ada: User) -> None:
    response = client.get("/admin/", follow=True)
    assert response.redirect_chain[-1][0] == "/sign-in/?next=%2Fadmin%2F"
    assert client.post("/admin/login/", {"username": "ada", "password": PASSWORD}).status_code == 405
    sign_in(client)
    assert client.get("/admin/", follow=True).status_code == 403  # without a redirect loop


def link_path() -> str:
    return first_admin.create_first_admin_link("") or ""


NEW_ADMIN = {"username": "ada", "password1": PASSWORD, "password2": PASSWORD}


def test_first_admin_is_created_by_setup_link(client: Client) -> None:
    path = link_path()
    response = client.get(path)
    assert (response.status_code, response["Location"]) == (302, "/first-admin/")  # no later URL contains the token
    assert client.get("/first-admin/").status_code == 200
    assert client.post("/first-admin/", NEW_ADMIN)["Location"] == "/"
    assert client.get("/").status_code == 200
    assert client.get("/admin/").status_code == 200
    assert Client().get(path).status_code == 404


def test_viewing_setup_link_does_not_consume_it(client: Client) -> None:
    path = link_path()
    Client().get(path)
    client.get(path)
    assert client.post("/first-admin/", {**NEW_ADMIN, "password2": "other"}).status_code == 400
    assert client.post("/first-admin/", {**NEW_ADMIN, "password1": "1234", "password2": "1234"}).status_code == 400
    assert client.post("/first-admin/", NEW_ADMIN).status_code == 302


def test_setup_link_creates_only_one_admin(client: Client) -> None:
    path, other = link_path(), Client()
    client.get(path)
    other.get(path)
    assert client.post("/first-admin/", NEW_ADMIN).status_code == 302
    assert other.post("/first-admin/", {**NEW_ADMIN, "username": "mallory"}).status_code == 404
    assert not User.objects.filter(username="mallory").exists()


def test_setup_page_requires_valid_link(client: Client) -> None:
    link_path()
    assert client.get("/first-admin/").status_code == 404
    assert client.post("/first-admin/", NEW_ADMIN).status_code == 404
    assert client.get("/first-admin/wrong/").status_code == 404
    assert not User.objects.filter(username="ada").exists()
