"""The trace context of a request frame: stored with the run it starts, shown in reports, and never a reason to reject."""

from sessions_app.models import Run

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def message(run_id):
    return {"sessionKey": "main", "message": "hi", "idempotencyKey": run_id}


async def test_run_keeps_the_trace_of_its_request(sockets):
    socket = await sockets.connect()
    assert (await socket.request("chat.send", message("k1"), traceparent=TRACE))["ok"]
    assert (await socket.call("runs.get", {"runId": "k1"}))["run"]["traceparent"] == TRACE


async def test_same_request_in_another_trace_is_deduplicated(sockets):
    socket = await sockets.connect()
    await socket.request("chat.send", message("k1"), traceparent=TRACE)
    again = await socket.request("chat.send", message("k1"), traceparent=OTHER)
    assert (again["ok"], again["payload"]["status"]) == (True, "in_flight")
    assert Run.objects.get().options["traceparent"] == TRACE


async def test_invalid_traceparent_is_ignored(sockets):
    socket = await sockets.connect()
    for number, sent in enumerate((None, 17, "nonsense", {"a": [1]}, TRACE + "x", "")):
        assert (await socket.request("chat.send", message(f"k{number}"), traceparent=sent))["ok"]
    assert [run.options for run in Run.objects.all()] == [{}] * 6


async def test_trace_does_not_leak_into_the_next_request(sockets):
    socket = await sockets.connect()
    await socket.request("chat.send", message("k1"), traceparent=TRACE)
    await socket.request("chat.send", message("k2"))
    assert Run.objects.get(run_id="k2").options == {}
