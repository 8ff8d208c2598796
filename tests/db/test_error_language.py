"""The language of errors: that of the page or of the client, and English for everyone else."""

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.accounts.tokens import issue_token
from clawsite.infra import db
from clawsite.infra.errors import NotFound
from sessions_app.sessions.service import find_session
from tests.harness.protocol import InProcessClient, running_gateway

pytestmark = pytest.mark.usefixtures("database")

ENGLISH, CHINESE = "Agent not found: nobody", "智能体不存在：nobody"


@pytest.mark.parametrize(("accepted", "message"), [("zh-CN,zh;q=0.9", CHINESE), ("en", ENGLISH), ("fr", ENGLISH)])
def test_page_shows_errors_in_its_language(make_user, accepted, message):
    client = Client(headers={"Accept-Language": accepted})
    client.force_login(make_user("Operator"))
    response = client.post(reverse("stop"), {"scope": "agent", "subject": "nobody", "reason": "test"})
    assert [str(each) for each in get_messages(response.wsgi_request)] == [message]


@pytest.mark.dialect
@pytest.mark.parametrize(
    ("locale", "missing", "taken"),
    [
        ("zh-Hans", "运行不存在：none", "主会话无法删除。请改为重置。"),
        ("zh-CN", "运行不存在：none", "主会话无法删除。请改为重置。"),
        ("en-US", "Run not found: none", "The main session can’t be deleted. Reset it instead."),
        ("xx", "Run not found: none", "The main session can’t be deleted. Reset it instead."),
        ("x" * 501, "Run not found: none", "The main session can’t be deleted. Reset it instead."),
        (None, "Run not found: none", "The main session can’t be deleted. Reset it instead."),
    ],
)
async def test_client_gets_errors_in_requested_language(user, locale, missing, taken):
    """The errors come from a reader thread and from the writer thread. The account's own language only applies to pages."""
    await db.write(lambda: User.objects.filter(pk=user.pk).update(language="zh-hans"))
    token = issue_token(user, "t", sorted(scopes_of(user)))[1]
    async with running_gateway():
        client = await InProcessClient.open(token, **({"locale": locale} if locale else {}))
        assert (await client.request("sessions.create", {"key": "main"}))["ok"]
        answers = [await client.request("runs.get", {"runId": "none"})]
        answers.append(await client.request("sessions.delete", {"key": "main"}))
        client.disconnect()
    assert [(answer["error"]["code"], answer["error"]["message"]) for answer in answers] == [
        ("NOT_FOUND", missing),
        ("INVALID_REQUEST", taken),
    ]


async def test_thread_reuse_does_not_leak_language(user):
    async def error() -> str:
        with pytest.raises(NotFound) as caught:
            await db.write(lambda: find_session(user, key="agent:main:none"))
        return caught.value.message

    with db.errors_in_language("zh-hans"):
        assert await error() == "会话不存在：agent:main:none"
    assert await error() == "Session not found: agent:main:none"
