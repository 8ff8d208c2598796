"""Post the results of webhook runs to the main session of the account, and start runs for messages that were queued there.

Every web process does this. Each result is posted once: the process that clears `report_due` posts it in the same transaction.
"""

from django.db import transaction

from clawsite.connectors.webhook import delivery_log
from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.connectors.webhook.requests import wrap_untrusted
from clawsite.infra import db
from clawsite.infra.errors import NotFound
from clawsite.routing.wake import NOW, WakeMode, open_main_session, start_webhook_run, wake
from sessions_app.models import Run
from sessions_app.runs import system_events
from sessions_app.sessions import selectors

MAX_BATCH = 50
MAX_SUMMARY_LENGTH = 2_000  # characters of the answer; the full text is in the run


async def report_results() -> None:
    for pk in await db.read(list_due_reports):
        await db.write(report_result, pk, alone=True)
    for session_id, hook in await db.read(system_events.list_undelivered, MAX_BATCH):
        await db.write(start_webhook_run, session_id, hook, alone=True)


async def clean_up_deliveries() -> None:
    while await db.write(delivery_log.delete_old_deliveries, alone=True):
        pass


def list_due_reports() -> list[int]:
    """List deliveries whose run has ended and whose result has not been posted."""
    ended = HookDelivery.objects.filter(report_due=True, run__status__in=Run.ENDED).order_by("pk")
    return list(ended.values_list("pk", flat=True)[:MAX_BATCH])


@transaction.atomic
def report_result(pk: int) -> None:
    if not HookDelivery.objects.filter(pk=pk, report_due=True).update(report_due=False):
        return  # another process was first
    row = HookDelivery.objects.select_related("run__owner", "run__session", "hook").get(pk=pk)
    run = row.run
    if run is None or not run.owner.is_active:
        return
    try:
        session = open_main_session(run.owner, run.session.agent)
    except NotFound:  # the agent no longer exists
        return
    mode: WakeMode = NOW if row.wake_mode == NOW else "next-heartbeat"
    hook = row.hook or Hook(slug=row.path)  # a deleted webhook is not trusted
    # Use the operator's name for the webhook: the name in the delivery is untrusted.
    words = f"Hook {hook.name or hook.slug}: {wrap_untrusted(hook, _summarize_run(run))}"
    wake(run.owner, session, words, mode=mode, source=f"/hooks/{row.path}", hook=row.path)


def _summarize_run(run: Run) -> str:
    if run.status == Run.Status.COMPLETED:
        text = selectors.read_run_state(run.owner, run.run_id).text.strip()
        return text[:MAX_SUMMARY_LENGTH] + ("…" if len(text) > MAX_SUMMARY_LENGTH else "") if text else "(no answer)"
    if run.status == Run.Status.FAILED:
        return f"failed: {run.error[:MAX_SUMMARY_LENGTH]}"
    return f"was stopped ({run.reason})"
