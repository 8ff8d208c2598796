"""`POST /hooks/<path>`: deliveries from other programs to webhooks. `wake` and `agent` use OpenClaw's request format.

Senders authenticate with the webhook's token or signature, never with an account's credentials. Unauthenticated senders get
the same response whether the webhook is unknown, is disabled, or rejected the credentials.
"""

import asyncio
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from clawsite.accounts.sign_in import throttle
from clawsite.connectors.webhook import delivery_log, inbound
from clawsite.connectors.webhook.delivery_log import IncomingDelivery
from clawsite.connectors.webhook.inbound import DeliveryResult, DeliveryUnauthorized
from clawsite.connectors.webhook.models import Hook
from clawsite.connectors.webhook.requests import WebhookRunRequest
from clawsite.infra import db
from clawsite.infra.errors import ClawError
from clawsite.infra.request_body import parse_body
from sessions_app.models import Run
from sessions_app.sessions.run_waits import process_waiters, wait_for_run_end

MAX_BODY_BYTES = 256 << 10
MAX_BODY_SECONDS = 30.0


@csrf_exempt  # safe: this view does not use cookies
async def receive_webhook(request: HttpRequest, path: str) -> HttpResponse:
    """Return 200 {ok, mode, eventOutcome} for a message to the main session and 202 {ok, runId} for a run.

    200 {ok, duplicate, runId} for a duplicate delivery. Errors are {ok: false, error}, or plain text for 401 and 405:
    400 invalid JSON, empty result, or a token in the URL   401 unknown or disabled webhook, or not authenticated   405 not POST
    408 body too slow   409 same ID with a different body   413 too large   429 too many failures or runs   503 try again later.
    429 and 503 have a Retry-After header if the time is known.
    """
    if request.method != "POST":
        return HttpResponse("Method Not Allowed", status=405, content_type="text/plain", headers={"Allow": "POST"})
    if "token" in request.GET:
        return _error_response(400, "tokens in URLs are logged; send the token as `Authorization: Bearer …`")
    address = throttle.address_of_request(request)
    try:
        await db.read(delivery_log.check_failure_limit, address)
        body = await parse_body(request, MAX_BODY_BYTES, bytes, MAX_BODY_SECONDS)
        hook = await db.read(inbound.find_webhook, path.rstrip("/"))
    except ClawError as error:
        return _to_error_response(error)
    headers = {name.lower(): value for name, value in request.headers.items()}
    came = IncomingDelivery(hook.slug, address, body, headers, request.GET.dict())
    try:
        signed = await db.read(inbound.authenticate_delivery, hook, came)
        wish = await db.read(inbound.build_request, hook, came)
        taken = await db.write(inbound.accept_delivery, hook, came, signed, wish, alone=True)
    except DeliveryUnauthorized as error:
        await db.write(delivery_log.record_rejected, hook, came, status=401, words=error.message, alone=True)
        return HttpResponse("Unauthorized", status=401, content_type="text/plain")
    except ClawError as error:
        await db.write(delivery_log.record_rejected, hook, came, status=error.http_status, words=error.message, alone=True)
        return _to_error_response(error)
    return JsonResponse(await _build_response(hook, taken, wish), status=200 if taken.duplicate or taken.mode else 202)


async def _build_response(hook: Hook, taken: DeliveryResult, wish: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"ok": True}
    if taken.duplicate:
        answer["duplicate"] = True
    if taken.mode:
        answer |= {"mode": taken.mode, "eventOutcome": taken.event}
    if taken.run_id:
        answer["runId"] = taken.run_id
    if isinstance(wish, WebhookRunRequest) and wish.wait_seconds and taken.run:
        answer["completion"] = await _wait_for_completion(taken, wish.wait_seconds)
    return answer


async def _wait_for_completion(taken: DeliveryResult, seconds: float) -> dict[str, Any]:
    """Return how the run ended, or `timeout` if it is still running after `seconds`. The run continues."""
    waits = await process_waiters()
    try:
        async with asyncio.timeout(seconds):
            state = await wait_for_run_end(waits, taken.owner, taken.run_id, taken.run or 0)
    except TimeoutError:
        return {"status": "timeout"}
    if state.status == Run.Status.COMPLETED:
        return {"status": "ok", "text": state.text}
    return {"status": "aborted"} if state.status == Run.Status.ABORTED else {"status": "error", "error": state.error}


def _to_error_response(error: ClawError) -> JsonResponse:
    return _error_response(error.http_status, error.message, error.retry_headers)


def _error_response(status: int, message: str, headers: dict[str, str] | None = None) -> JsonResponse:
    return JsonResponse({"ok": False, "error": message}, status=status, headers=headers or {})
