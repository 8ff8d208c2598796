"""A supervised tool that is not about commands: a plugin with its own Supervisor."""

import json

import pytest

from tests.harness.plugins import install_plugin, record_plugins, unload_plugins
from tests.harness.policies import restore_policy
from tests.harness.worker import WorkerHarness, calls_of, transcript_of
from tools_app.models import Plugin
from tools_app.policy_store import policies

PAY = """
import hashlib
import json
from dataclasses import dataclass

from clawsite.infra.reasons import Reason, register_reasons
from tools_app.core.definition import ToolArgs, ToolFailed, text_result, tool
from tools_app.core.supervision import Supervision

register_reasons(
    {
        "pay.too_expensive": "too_expensive: {amount} is over the limit of run {is_run}",
        "pay.too_late": "too_late: the account is empty",
    }
)


class Args(ToolArgs):
    amount: int


@dataclass(frozen=True)
class Payment:
    amount: int
    depends_on_files = False

    def to_json(self):
        return {"amount": self.amount}

    @property
    def hash(self):
        return hashlib.sha256(json.dumps(self.to_json()).encode()).hexdigest()


@dataclass(frozen=True)
class PlannedPayment:
    plan: Payment


class Pay:
    async def plan(self, args, ref):
        if args.amount == 0:
            return None
        if args.amount < 0:
            raise ToolFailed("nobody pays a negative amount")
        return PlannedPayment(Payment(args.amount))

    def decide(self, run, planned, *, why, version):
        if planned.plan.amount > 100:
            reason = Reason("pay.too_expensive", amount=planned.plan.amount, is_run=run.pk > 0)
            return Supervision("deny", reason, code="too_expensive")
        return Supervision("allow", plan=planned.plan)

    def check_still_allowed(self, run, planned, decided):
        return Reason("pay.too_late") if planned.plan.amount == 99 else None

    async def __call__(self, args, call):
        return text_result(f"paid {call.plan.amount if call.plan else 'nothing'}")


@tool("pay", args=Args, supervised=True)
def make_pay(env):
    '''Pay an amount.'''
    return Pay()


@tool("unsupervised", args=Args, supervised=True)
def make_unsupervised(env):
    '''Forget to supervise.'''

    async def perform(args, call):
        return text_result("paid")

    return perform


tools = [make_pay, make_unsupervised]
"""


@pytest.fixture
def payments(tmp_path, database, monkeypatch):
    unload_plugins(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    install_plugin(tmp_path, "payments", PAY)
    record_plugins()
    Plugin.objects.filter(name="payments").update(enabled=True)
    record_plugins()
    with restore_policy():
        policies.save_policy(scope="agent", subject="main", profile="full", also_allow=["pay", "unsupervised"])
        yield
    unload_plugins(tmp_path)


@pytest.mark.parametrize(
    ("amount", "status", "told"),
    [
        (0, "finished", "paid nothing"),
        (5, "finished", "paid 5"),
        (-1, "refused", "nobody pays a negative amount"),
        (500, "refused", "too_expensive: 500 is over the limit of run True"),
        (99, "failed", "too_late: the account is empty"),
        ("no number", "refused", "invalid arguments for `pay`"),
    ],
)
async def test_supervisor_decides_each_call(harness: WorkerHarness, payments, amount, status, told):
    run = await harness.answer(f"[[tool=pay args={json.dumps({'amount': amount})}]] [[text=done]]")
    assert run.status == "completed"
    (call,) = calls_of(run)
    (result,) = [text for role, text in transcript_of(run) if role == "toolResult"]
    assert (call.status, result.startswith(told)) == (status, True), result


async def test_supervised_tool_without_supervisor_is_unavailable(harness: WorkerHarness, payments):
    run = await harness.answer('[[tool=unsupervised args={"amount":1}]] [[text=done]]')
    (call,) = calls_of(run)
    assert (call.status, call.verdict["not_offered"]["code"]) == ("refused", "tool.factory_without_plan")
