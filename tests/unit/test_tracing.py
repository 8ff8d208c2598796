"""Parsing the `traceparent` header, and spans when tracing is off."""

import io
import logging

import pytest

from clawsite.infra.observability import logs, tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (HEADER, HEADER),
        (f" {HEADER.upper()} ", HEADER),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", HEADER),
        (f"00-{TRACE}-{SPAN}-01-more", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE[:-1]}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}-01\n", HEADER),
        ("", ""),
        ("x" * 100_000, ""),
        (None, ""),
        (17, ""),
        ({"00": TRACE}, ""),
    ],
)
def test_only_valid_traceparent_header_is_kept(sent, kept):
    assert tracing.clean_header(sent) == kept


def test_traceparent_is_passed_through_without_endpoint():
    with tracing.export_spans("web"):
        assert not tracing.is_enabled()
        with tracing.trace_request("chat.send", HEADER) as span:
            assert tracing.current_traceparent() == HEADER
            child = tracing.start_span("run", span.header)
            assert child.header == HEADER
            child.end()
        assert tracing.current_traceparent() == ""
        with tracing.trace_request("chat.send", "nonsense"):
            assert tracing.current_traceparent() == ""


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_tracing_is_disabled_unless_configured(monkeypatch, environment):
    for name in (*tracing.ENDPOINTS, "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with tracing.export_spans("web"):
        assert not tracing.is_enabled()


def test_missing_otel_packages_are_logged(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(__import__("sys").modules, "clawsite.infra.observability.otel", None)
    with tracing.export_spans("web"):
        assert not tracing.is_enabled()
    assert "clawsite[otel]" in caplog.text


def test_log_records_inside_trace_have_trace_id():
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logs.configure("test", stream=stream)
        with tracing.trace_request("chat.send", HEADER):
            logging.getLogger("clawsite.test").warning("something happened")
        logging.getLogger("clawsite.test").warning("something else happened")
    finally:
        root.handlers[:], level = before[0], before[1]
        root.setLevel(level)
    inside, outside = stream.getvalue().splitlines()
    assert inside.endswith(f"trace={TRACE}")
    assert "trace=" not in outside
