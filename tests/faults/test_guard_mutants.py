"""Deliberate faults outside the gate: what a card shows, where paths lead, who changes rules, who approves.

Each breaks exactly its lesson, and without it none is broken.
"""

import asyncio
import html
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError, Forbidden
from clawsite.web import visible_text
from clawsite.web.approvals import card
from tests.harness.approvals import create_approval
from tests.harness.sandbox import Shell
from tools_app.approvals import grants, rule_document
from tools_app.approvals import requests as approval_requests
from tools_app.builtin.files import tree
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import ToolFailed
from tools_app.exec.processes import spawn
from tools_app.exec.rules import enable_asking, save_rule
from tools_app.exec.sandbox.types import SandboxLevel, SpawnFailed
from tools_app.models import Approval, ExecRule

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

ODD = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
MANY_WORDS = " ".join(f"word{number}" for number in range(2000))
LINES = [f"echo {MANY_WORDS} the-end", "echo \u202egnp.exe \u200bx\x07 <b>\u00a0\tz</b>\nrm -rf /tmp/x", "echo a &lt; b"]


@dataclass
class Scene:
    make_user: Any
    make_session: Any
    shell: Shell

    def question(self, line: str = "ls", **more: Any) -> Approval:
        ada = self.make_user()
        return create_approval(ada, self.make_session(ada), line, **more)

    def robot(self) -> User:
        """A service account, as webhooks and schedules have one, with every permission that groups can give."""
        account = self.make_user("Operator", "Approver", "User", "Auditor")
        User.objects.filter(pk=account.pk).update(is_service=True)
        return User.objects.get(pk=account.pk)


# Cards


def command_card(scene: Scene) -> set[str]:
    """L2: the page shows the whole command, with nothing invisible."""
    browser = Client()
    browser.force_login(scene.make_user("Approver"))
    for line in LINES:
        page = browser.get(reverse("approval", args=[scene.question(line).pk])).content.decode()
        (shown,) = re.findall(r'<pre\s+class="command".*?<code dir="ltr">(.*?)</code>', page, re.DOTALL)
        text = html.unescape(re.sub(r"<[^>]*>", "", shown))
        unseen = [letter for letter in text if not letter.isprintable() and letter not in "\n\t"]
        if unseen or ODD.sub(lambda found: chr(int(found[1], 16)), text) != line:
            return {"L2"}
    return set()


def shows_only_the_beginning(monkeypatch) -> None:
    whole = card.command_html
    monkeypatch.setattr(card, "command_html", lambda line, parts: whole(line[:2000], parts))


def shows_invisible_characters_unchanged(monkeypatch) -> None:
    monkeypatch.setattr(visible_text, "_classify", lambda character, before: "plain")


# Paths


async def directory_becomes_link(scene: Scene) -> set[str]:
    """L9: a command starts in the directory that was checked, or not at all."""
    there = scene.shell.workspace / "sub"
    there.unlink(missing_ok=True)
    there.symlink_to(scene.shell.outside)
    try:
        ran = await scene.shell.run(SandboxLevel.NONE, "pwd -P", cwd=there)
    except SpawnFailed:
        return set()
    return {"L9"} if ran.out.strip() == str(scene.shell.outside) else set()


def file_tools_meet_links(scene: Scene) -> set[str]:
    """L9: no name leads out of the workspace, neither for reading nor for writing."""
    root, outside = scene.shell.workspace, scene.shell.outside
    for name, target in (("link", outside), ("file", scene.shell.secret)):
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)
    got_out = set()
    for attempt in (
        lambda: Workspace(root).read("link/secret"),
        lambda: Workspace(root).read("file"),
        lambda: Workspace(root).write("link/new", b"x"),
    ):
        try:
            attempt()
            got_out.add("L9")
        except ToolFailed:
            continue
    (outside / "new").unlink(missing_ok=True)
    return got_out


def enters_directories_by_name(monkeypatch) -> None:
    monkeypatch.setattr(spawn, "_open_working_directory", lambda spawn, opened: str(spawn.cwd))


def follows_links(monkeypatch) -> None:
    monkeypatch.setattr(tree, "DIRECTORY_FLAGS", tree.DIRECTORY_FLAGS & ~os.O_NOFOLLOW)


# Changing rules and approving


def service_account_changes_rules(scene: Scene) -> set[str]:
    """L10: only people change rules and lists, whatever permissions a service account has."""
    robot = scene.robot()
    document = {"version": 1, "defaults": {"security": "full", "ask": "off"}}
    rule = ExecRule.objects.create(scope="agent", subject="other", security="deny")
    for attempt in (
        lambda: enable_asking("main", robot),
        lambda: save_rule(rule, by=robot, expected_version=rule.version),
        lambda: rule_document.replace_rules(
            document, base_hash=rule_document.hash_document(rule_document.current_document()), by=robot
        ),
        lambda: grants.add_manually(["ls"], by=robot, scope="installation"),
    ):
        try:
            attempt()
            return {"L10"}
        except Forbidden:
            continue
        finally:
            ExecRule.objects.exclude(pk=rule.pk).delete()
    ExecRule.objects.all().delete()
    return set()


def unauthorized_user_decides(scene: Scene) -> set[str]:
    """L11: approving is a separate permission, checked for each request: the group, the rule, the requester."""
    requester = scene.make_user("Approver", "User")
    own = create_approval(requester, scene.make_session(requester), exclude_requester=True)
    chosen = scene.question(approver_groups=[[0]])  # of a group without members
    plain = scene.question()
    for by, question in (
        (scene.make_user("Operator", "Auditor", "User"), plain),
        (scene.robot(), plain),
        (requester, own),
        (scene.make_user("Approver"), chosen),
    ):
        try:
            approval_requests.resolve_approval(question.pk, by=by, decision="allow-once")
            return {"L11"}
        except ClawError:
            assert Approval.objects.get(pk=question.pk).is_open
    return set()


def treats_service_accounts_as_people(monkeypatch) -> None:
    monkeypatch.setattr(User, "is_service", property(lambda account: False, lambda account, value: None))


def lets_everyone_decide_who_sees_it(monkeypatch) -> None:
    monkeypatch.setattr(approval_requests, "why_may_not_approve", lambda user, approval, quorum=None: "")


def ignores_requirements_of_the_request(monkeypatch) -> None:
    """Users who may approve one request may approve all."""

    def why_not(user, approval, quorum=None):
        return "" if user.has_perm("accounts.approve_commands") and not user.is_service else "no"

    monkeypatch.setattr(approval_requests, "why_may_not_approve", why_not)


MUTANTS = [
    ("L2", command_card, shows_only_the_beginning),
    ("L2", command_card, shows_invisible_characters_unchanged),
    ("L9", directory_becomes_link, enters_directories_by_name),
    ("L9", file_tools_meet_links, follows_links),
    ("L10", service_account_changes_rules, treats_service_accounts_as_people),
    ("L11", unauthorized_user_decides, treats_service_accounts_as_people),
    ("L11", unauthorized_user_decides, lets_everyone_decide_who_sees_it),
    ("L11", unauthorized_user_decides, ignores_requirements_of_the_request),
]


@pytest.mark.parametrize(
    ("lesson", "scenario", "mutate"), MUTANTS, ids=[f"{lesson}-{mutate.__name__}" for lesson, _, mutate in MUTANTS]
)
async def test_guard_mutation_violates_only_its_invariant(
    lesson, scenario, mutate, make_user, make_session, tmp_path: Path, monkeypatch
):
    scene = Scene(make_user, make_session, Shell(tmp_path))

    async def told() -> set[str]:
        found = scenario(scene)
        return await found if asyncio.iscoroutine(found) else found

    assert await told() == set()
    with monkeypatch.context() as patched:
        mutate(patched)
        broken = await told()
    assert broken == {lesson}
