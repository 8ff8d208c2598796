"""Store why the system closed an approval request as a code with parameters, apart from what the approver wrote.

Commits in chunks and can be repeated.
"""

import re

from django.db import migrations, transaction

CHUNK = 500

# Texts that earlier versions stored.
CODES = {
    "nobody answered in time": {"code": "approval.expired"},
    "whoever asked for it does not want it any more": {"code": "approval.skipped"},
    "who approved it may not approve it any more": {"code": "approval.lost_permission"},
    "by now the rules want two people to agree": {"code": "approval.two_approvers"},
}
RUN_ENDED = re.compile(r"the run (?:was stopped|ended) \((.+)\)")
RUN_CODES = frozenset(
    """timeout cut unavailable rate_limit billing auth context_overflow format empty poisoned turns_used_up internal rpc stop operator
    withdrawn session-reset session-delete share-ended nothing_to_compact frozen approval""".split()
)


def to_reason(text):
    if text in CODES:
        return CODES[text]
    if found := RUN_ENDED.fullmatch(text):
        code = found[1]
        reason = {"code": f"run.{code}"} if code in RUN_CODES else {"code": "run.other", "params": {"code": code}}
        return {"code": "approval.run_ended", "params": {"reason": reason}}
    return {"code": "legacy", "params": {"text": text}}


def separate_reason(approval):
    """Move a reason given by the system to its own column. Return whether there was one."""
    if approval.void_reason:
        approval.system_reason = to_reason(approval.void_reason)
        return True
    if approval.status == "expired" or approval.decision == "drop" or (approval.status == "void" and not approval.decision):
        approval.system_reason, approval.reason = to_reason(approval.reason), ""
        return True
    return False


def separate_reasons(apps, schema_editor):
    approvals = apps.get_model("tools_app", "Approval").objects.using(schema_editor.connection.alias)
    unconverted = approvals.filter(system_reason__isnull=True).exclude(reason="", void_reason="").order_by("pk")
    chunk = unconverted.only("status", "decision", "reason", "void_reason", "system_reason")
    last = None
    while page := list((chunk.filter(pk__gt=last) if last else chunk)[:CHUNK]):
        last = page[-1].pk
        with transaction.atomic(using=schema_editor.connection.alias):
            approvals.bulk_update(filter(separate_reason, page), ["system_reason", "reason"])


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ("tools_app", "0008_system_reasons"),
    ]

    operations = [
        migrations.RunPython(separate_reasons, migrations.RunPython.noop, elidable=False),
    ]
