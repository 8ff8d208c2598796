"""An accepted delivery is not lost, whichever process dies when: acceptance is a row."""

import httpx
import pytest

from sessions_app.models import Run
from tests.harness.webhooks import create_webhook

pytestmark = pytest.mark.dialect


async def test_accepted_delivery_survives_death_of_every_process(stack, make_user, eventually):
    """No worker runs when the delivery arrives, and the process that accepted it dies before one starts."""
    running = stack()
    made = create_webhook(make_user("Operator"), deliver=False)
    (worker,), (web,) = running.workers, running.webs
    worker.kill()
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.post("/hooks/news", json={"text": "[[text=late]]"}, headers={"Authorization": f"Bearer {made.token}"})
    assert answer.status_code == 202
    web.kill()
    assert Run.objects.get(run_id=answer.json()["runId"]).status == "accepted"
    worker.spawn()
    await eventually(lambda: Run.objects.filter(run_id=answer.json()["runId"], status="completed").exists(), seconds=60)
