"""One trace from a client's frame through the run to the model and the tools, as an OpenTelemetry collector receives it."""

import asyncio
import http.server
import threading

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sessions_app.models import Run
from tests.harness.protocol import SocketClients

CLIENT = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
OTHER = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
SECRET = "words-that-nobody-may-see"


class Collector:
    """Listens where OTEL_EXPORTER_OTLP_ENDPOINT points, and keeps every span."""

    def __init__(self) -> None:
        self.spans: list = []
        self.services: set[str] = set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                collector.took(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_args) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def took(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            named = {item.key: item.value.string_value for item in resource.resource.attributes}
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def of(self, trace: str, name: str) -> list:
        return [span for span in list(self.spans) if span.trace_id.hex() == trace and span.name == name]


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


async def test_one_trace_spans_frame_run_model_and_tool_calls(collector, stack, user, make_session, eventually):
    session = make_session(user, "agent:main:main")
    started = stack(
        env={
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_SERVICE_NAME": "claw-test",
            "CLAWSITE_METRICS_TOKEN": "for-prometheus",
            "CLAWSITE_LEASE_SECONDS": "10",
        }
    )
    sockets = SocketClients(started.url.removeprefix("http://"))
    socket = await sockets.connect(started.api_token(user))
    words = f'{SECRET} [[tool=write args={{"path":"a.txt","content":"{SECRET}"}}]] [[tag=traced]]'
    sent = {"sessionKey": "main", "message": words, "idempotencyKey": "traced"}
    answer = await socket.request("chat.send", sent, traceparent=f"00-{CLIENT[0]}-{CLIENT[1]}-01")
    assert answer["ok"], answer
    header = {"Authorization": f"Bearer {started.api_token(user)}", "traceparent": f"00-{OTHER[0]}-{OTHER[1]}-01"}
    async with httpx.AsyncClient(base_url=started.url, headers=header) as client:
        over_http = await client.post(f"/api/sessions/{session.pk}/messages", json={"message": "hello [[tag=second]]"})
        assert over_http.status_code == 202, over_http.text
        assert (await socket.call("agent.wait", {"runId": "traced"}))["status"] == "ok"
        assert (await socket.call("agent.wait", {"runId": over_http.json()["runId"]}))["status"] == "ok"

        trace, parent = CLIENT
        route = "POST /api/sessions/<session_id>/messages"
        awaited = [(trace, "chat.send"), (trace, "run"), (OTHER[0], "run"), (OTHER[0], route)]
        await eventually(lambda: all(collector.of(*each) for each in awaited))
        [frame], [run] = collector.of(trace, "chat.send"), collector.of(trace, "run")
        models, [tool] = collector.of(trace, "model call"), collector.of(trace, "tool call")
        assert frame.parent_span_id.hex() == parent
        assert run.parent_span_id == frame.span_id
        assert {span.parent_span_id for span in (*models, tool)} == {run.span_id}
        asked = [record["traceparent"] for record in started.model_requests("traced")]
        assert sorted(asked) == sorted(f"00-{trace}-{span.span_id.hex()}-01" for span in models)
        assert len(asked) == 2

        [request] = collector.of(OTHER[0], route)
        assert request.parent_span_id.hex() == OTHER[1]
        assert collector.of(OTHER[0], "run")[0].parent_span_id == request.span_id
        assert len(collector.of(OTHER[0], "model call")) == 1

        assert collector.services == {"claw-test"}
        assert SECRET not in str(collector.spans)
        kept = (await socket.call("runs.get", {"runId": "traced"}))["run"]["traceparent"]
        assert kept == f"00-{trace}-{frame.span_id.hex()}-01"

        # The web process also reports the worker's metrics.
        def told() -> "asyncio.Future":
            return client.get("/metrics", headers={"Authorization": "Bearer for-prometheus"})

        async def counted() -> bool:
            text = (await told()).text
            return 'clawsite_tool_calls_total{outcome="ok",process="worker-' in text and "clawsite_sockets" in text

        await eventually(counted)
    await sockets.close()
    assert Run.objects.get(run_id="traced").status == "completed"
