"""The pages in Simplified Chinese, in a real browser: no text of the software is left in English."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.urls import reverse
from playwright.sync_api import Page, expect

import clawsite.urls  # noqa: F401  # it registers the pages of the admin
from clawsite.accounts import tokens
from clawsite.accounts.models import User
from clawsite.connectors.webhook.models import Hook
from clawsite.gateway.models import Device, PairingRequest
from clawsite.infra import clock, sql
from sessions_app.models import Freeze, Run, Session, Worker
from sessions_app.runs import lifecycle
from tests.harness.approvals import EXPLANATION, create_approval, create_decided_approval
from tests.harness.recorded_run import create_recorded_run, recorded_events, wire_events
from tests.web.chat_page import NOW, sign_in, stored_message, stored_turn
from tests.web.fake_gateway import FakeGateway, Refused

pytestmark = pytest.mark.usefixtures("database")

# Visible or hidden, because a dialog, a menu or a script may show it later. Excluded: text from people, models and the policy, text
# that is the same in every language (keys, code, icon names), and text marked as being in another language.
COLLECT = """() => {
  const aside = "script, noscript, style, code, kbd, pre, .mono, .json, .material-symbols-outlined, [data-said], [lang]:not(html)";
  const said = [];
  const add = (text) => text?.trim() && said.push(text.trim().replace(/\\s+/g, " "));
  function look(root) {
    for (const element of root.querySelectorAll("*")) {
      if (element.closest(aside)) continue;
      for (const name of ["aria-label", "placeholder", "title", "alt", "label"]) add(element.getAttribute(name));
      if (element.matches(".words")) Object.values(element.dataset).forEach(add);
      for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) add(node.textContent);
      if (element instanceof HTMLTemplateElement) look(element.content);
    }
  }
  look(document);
  add(document.title);
  return [...new Set(said)];
}"""
ENGLISH = re.compile(r"[A-Za-z][a-z’'-]+(?: [A-Za-z][a-z’'-]+)+")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Commands to type, and names.
NAMES = ("claw prepare", "claw worker", "Samsung Internet", "run ls -la")


def english(page: Page, *, data: tuple[str, ...] = ()) -> list[str]:
    """Return English text on the page: two words in a row. `data` is text that the test itself created."""
    left = []
    for text in page.evaluate(COLLECT):
        rest = text
        for known in (*NAMES, *data):
            rest = rest.replace(known, "")
        if ENGLISH.search(rest):
            left.append(text)
    return left


def is_chinese(page: Page) -> None:
    assert page.evaluate("document.documentElement.lang").lower() == "zh-hans"
    assert len([text for text in page.evaluate(COLLECT) if CHINESE.search(text)]) > 5


@pytest.fixture
def reader(user: User) -> User:
    """A user who has chosen Chinese, whatever their browser prefers."""
    User.objects.filter(pk=user.pk).update(language="zh-hans")
    user.refresh_from_db()
    return user


@pytest.fixture
def operator(make_user: Callable[..., User]) -> Iterator[User]:
    operator = make_user("User", "Operator", "Auditor", name="olga")
    operator.is_staff = operator.is_superuser = True
    operator.language = "zh-hans"
    operator.save()
    yield operator
    LogEntry.objects.all().delete()


def test_sign_in_and_error_pages_are_translated(page: Page, site: str) -> None:
    page.set_extra_http_headers({"Accept-Language": "zh-CN,zh;q=0.9"})
    page.goto(f"{site}/sign-in/")
    is_chinese(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("登录")
    assert english(page) == []
    page.get_by_label("用户名").fill("nobody")
    page.get_by_label("密码", exact=True).fill("a-wrong-password")
    page.get_by_role("button", name="登录", exact=True).click()
    expect(page.get_by_role("alert")).to_have_text("用户名或密码错误。两者都区分大小写。")
    assert english(page) == []
    page.goto(f"{site}/nothing/")
    expect(page.get_by_role("heading", level=1)).to_have_text("页面不存在")


def test_account_page_is_translated(page: Page, site: str, reader: User) -> None:
    tokens.issue_token(reader, "robot", ["operator.read"], clock.now() + timedelta(days=9))
    sign_in(page, site, reader)
    page.goto(f"{site}/account/")
    is_chinese(page)
    assert english(page) == []
    until = clock.now() + timedelta(days=9)
    expect(page.locator("#tokens")).to_contain_text(f"有效期至 {until.year}年{until.month}月{until.day}日")
    for field in page.locator("#password input[type=password]").all():
        field.fill("12345678")
    page.locator("#password").get_by_role("button", name="更改密码").click()
    expect(page.locator("#password .error").first).to_be_visible()
    assert english(page) == []


def conversation() -> list[dict[str, Any]]:
    """All kinds of text around messages; the messages themselves are in Chinese."""
    tool = {"type": "toolCall", "id": "c1", "name": "write", "arguments": {"path": "a.txt"}}
    result = {
        "toolCallId": "c1",
        "toolName": "write",
        "isError": True,
        "verdict": {"allowed": False, "layer": "agent", "why": "拒绝"},
    }
    notice = {"role": "notice", "notice": "failed", "runId": "r2", "errorKind": "rate_limit", "text": "", "messageId": "n1"}
    return [
        *stored_turn(1, "你好", "您好", durationMs=75_000),
        stored_message("user", "写文件", 2),
        stored_message("assistant", "好", 2, content=[{"type": "thinking", "thinking": "想一想"}, tool]),
        stored_message("toolResult", "不允许", 2, **result),
        {**notice, "content": [], "timestamp": NOW + 3000, "position": 3},
    ]


def test_chat_page_is_translated(page: Page, site: str, gateway: FakeGateway, reader: User) -> None:
    gateway.answers["chat.history"] = lambda params: gateway.history(conversation())
    sign_in(page, site, reader)
    page.goto(site)
    expect(page.locator("#connection")).to_have_text("已连接")
    is_chinese(page)
    expect(page.locator(".message.assistant .facts").first).to_contain_text("输入 1,200，输出 56")
    expect(page.locator(".message.assistant .facts").first).to_contain_text("1 分 15 秒")
    expect(page.locator(".message.user time").first).to_contain_text(re.compile(r"2023年11月1\d日 \d\d:\d\d"))
    expect(page.locator(".ending[data-state=failed] .note")).to_have_text("失败：已达到模型的请求频率上限")
    expect(page.locator(".tool .verdict")).to_have_text("被策略层 agent 拒绝")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    assert english(page) == []
    assert gateway.calls("connect")[0]["locale"] == "zh-Hans"


def test_chat_errors_are_shown_in_chinese_first(page: Page, site: str, gateway: FakeGateway, reader: User) -> None:
    sign_in(page, site, reader)
    page.goto(site)
    expect(page.locator("#connection")).to_have_text("已连接")
    refusals = [
        (
            Refused("QUEUE_FULL", "100 of your runs are still waiting"),
            "未发送：你排队中的消息过多（100 of your runs are still waiting）",
        ),
        (Refused("CONFLICT", "stop it", details={"code": "RUN_UNFINISHED"}), "未发送：智能体仍在工作。请先停止。"),
        (
            Refused("INVALID_REQUEST", "x", details={"code": "UNKNOWN_COMMAND", "command": "/modle", "meant": "/model"}),
            "未发送：未知命令 /modle。你是指 /model 吗？如要作为文本发送，请以空格开头。",
        ),
        (
            Refused("INVALID_REQUEST", "x", details={"code": "UNKNOWN_MODEL", "model": "gpt", "near": ["openai/gpt-5"]}),
            "未发送：模型“gpt”在此不可用。例如可选 openai/gpt-5。",
        ),
    ]
    for refusal, told in refusals:

        def refuse(params: dict[str, Any], refusal: Refused = refusal) -> dict[str, Any]:
            raise refusal

        gateway.answers["chat.send"] = refuse
        page.get_by_label("消息", exact=True).fill("你好")
        page.get_by_label("消息", exact=True).press("Enter")
        expect(page.get_by_role("alert")).to_have_text(told)


def test_run_page_is_translated(
    page: Page, site: str, gateway: FakeGateway, reader: User, make_session: Callable[..., Session]
) -> None:
    run = create_recorded_run(reader, make_session(reader, "agent:main:talk"))
    gateway.answers["runs.events"] = lambda params: {"events": wire_events(recorded_events()), "more": False}
    sign_in(page, site, reader)
    page.goto(f"{site}/runs/{run.pk}/")
    expect(page.locator("#recorder")).to_be_visible()
    is_chinese(page)
    expect(page.locator("#calls")).to_contain_text("策略层 agent 拒绝：拒绝项 `write`")
    expect(page.locator(".figures")).to_contain_text("输入 2,400，输出 170")
    for said in page.locator("#story .text, blockquote.asked, #events .what").all():
        said.evaluate("element => element.dataset.said = 'yes'")
    assert english(page, data=("Compare the two notes",)) == []
    page.goto(f"{site}/runs/")
    expect(page.locator(".run-row .badge")).to_have_text("已完成")
    assert english(page, data=("Compare the two notes",)) == []


def test_approval_freeze_and_policy_pages_are_translated(
    page: Page, site: str, operator: User, make_session: Callable[..., Session]
) -> None:
    session = make_session(operator, "agent:main:talk")
    question = create_approval(operator, session)
    create_decided_approval(operator, operator, session, create_recorded_run(operator, session), 0)
    Freeze.objects.create(scope="agent", subject="demo", reason="写得太多", by=operator, by_name="olga", at=clock.now())
    sign_in(page, site, operator)
    names = ("approvals", "approvals-history", "grants", "try-command", "stops", "policies", "policy-history", "policy-tests")
    for address in (*map(reverse, names), reverse("approval", args=[question.pk])):
        page.goto(site + address)
        is_chinese(page)
        assert english(page, data=(EXPLANATION, "the secret prompt", "git restore", "git status && ls -la | head")) == [], address
    page.goto(site + reverse("try-command"))
    page.get_by_label("命令行").fill("ls")
    expect(page.locator("#verdict .reasons")).to_contain_text("此处已禁止运行命令。")


def test_device_api_and_webhook_pages_are_translated(page: Page, site: str, operator: User) -> None:
    node = {"displayName": "厨房", "platform": "linux", "commands": ["lights.on"]}
    later = clock.now() + timedelta(hours=1)
    for role in ("node", "operator"):
        PairingRequest.objects.create(
            fingerprint="cd" * 32, public_key="x", role=role, facts=node, account=operator, expires_at=later
        )
    Device.objects.create(owner=operator, fingerprint="ab" * 32, public_key="x", display_name="客厅", is_node=True)
    hook = Hook.objects.create(slug="news", name="新闻", owner=operator, token_digest="0")
    sign_in(page, site, operator)
    for address in ("/account/", "/api/docs", "/confirm/", reverse("admin:connectors_hook_add")):
        page.goto(site + address)
        is_chinese(page)
        assert english(page) == [], address
    page.goto(site + reverse("admin:connectors_hook_try", args=[hook.pk]))
    page.get_by_role("button", name="预览").click()
    expect(page.get_by_role("heading", name="提示词预览")).to_be_visible()
    page.locator("textarea[name=body]").evaluate("field => field.dataset.said = 'yes'")  # an example of what a program sends
    assert english(page) == []


@pytest.fixture
def work(operator: User, make_session: Callable[..., Session]) -> list[Run]:
    """A completed, a failed and a waiting run, and a worker."""
    Worker.objects.create(id="w1", pid=1, started_at=clock.now(), heartbeat_at=sql.db_now(), version="1.0")
    lifecycle.accept_run(user=operator, session=make_session(operator), run_id="queued", prompt="等一等")
    return [
        create_recorded_run(operator, make_session(operator), "done"),
        create_recorded_run(operator, make_session(operator), "failed", status="error"),
    ]


def test_dashboard_is_translated(page: Page, site: str, operator: User, work: list[Run]) -> None:
    sign_in(page, site, operator)
    page.goto(f"{site}/admin/")
    is_chinese(page)
    expect(page.locator("[data-tile=health]")).to_contain_text("健康状况")
    expect(page.locator("[data-tile=queued]")).to_contain_text("最久：")
    today = clock.now()
    expect(page.locator(".dash-ends").first).to_contain_text(f"{today.month}月{today.day}日")
    assert english(page, data=(work[1].error,)) == []


@pytest.mark.parametrize("label", sorted(model._meta.label_lower for model in admin.site._registry))
def test_admin_pages_are_translated(page: Page, site: str, operator: User, work: list[Run], label: str) -> None:
    app, name = label.split(".")
    model = apps.get_model(label)
    sign_in(page, site, operator)
    addresses = [reverse(f"admin:{app}_{name}_changelist")]
    row = model._default_manager.order_by("pk").last()
    if row is not None:
        addresses.append(reverse(f"admin:{app}_{name}_change", args=[row.pk]))
    if label in ("accounts.user", "accounts.accesstoken", "agents.agent", "auth.group", "tools_app.toolpolicy"):
        addresses.append(reverse(f"admin:{app}_{name}_add"))
    for address in addresses:
        answer = page.goto(site + address)
        assert answer and answer.status == 200
        is_chinese(page)
        assert english(page, data=("Compare the two notes", work[1].error, page.evaluate("navigator.userAgent"))) == []
