"""Structured logs on stderr and in a file: time, level, process, logger, message, then ids as fields. Needs no Django.

Each record is one line; in the text format, a traceback follows on indented lines. Fields come from `extra=`, and only those
in FIELDS are written, so that a prompt or answer passed by mistake is not logged. Secrets are never logged on purpose;
`clawsite.infra.observability.redact` is the last safeguard.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from clawsite.infra.observability import tracing
from clawsite.infra.observability.log_files import DailyFileHandler
from clawsite.infra.observability.redact import host_secrets, redact

FIELDS = (
    "run", "session", "user", "worker", "connection", "client", "address", "method", "code", "status", "reason", "kind",
    "lane", "agent", "model", "provider", "tool", "call", "layer", "attempt", "seq", "cursor", "count", "pid", "ms",
)  # fmt: skip

# Libraries that repeat our own log at INFO, or log message contents at DEBUG. `client` is a logger of mcp.
QUIET_LOGGERS = (
    "uvicorn", "websockets", "httpx", "httpcore", "httpx2", "httpcore2", "aiohttp", "asyncio", "litellm", "LiteLLM", "openai",
    "mcp", "client",
)  # fmt: skip


class LineFormatter(logging.Formatter):
    """Common base of both formats: time, fields, redaction."""

    def __init__(self, process: str, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self.process = process
        self.secrets = host_secrets(secrets)

    def moment(self, record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        fields = {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if trace := tracing.current_traceparent():
            fields["trace"] = tracing.parse_trace_id(trace)
        return fields

    def traceback(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class TextFormatter(LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")  # a message must not be able to forge records
        head = f"{self.moment(record)} {record.levelname.lower():<7} {self.process} {record.name} {message}"
        pairs = (f" {name}={_quote(value)}" for name, value in self.fields(record).items())
        trace = "".join(f"\n    {line}" for line in self.traceback(record).splitlines())
        return redact(head + "".join(pairs) + trace, self.secrets)


class JsonFormatter(LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": self.moment(record),
            "level": record.levelname.lower(),
            "process": self.process,
            "logger": record.name,
            "message": redact(record.getMessage(), self.secrets),
        }
        line.update({name: self._clean(value) for name, value in self.fields(record).items()})
        if trace := self.traceback(record):
            line["exception"] = redact(trace, self.secrets)
        return json.dumps(line, ensure_ascii=False, default=str)

    def _clean(self, value: object) -> object:
        return value if isinstance(value, int | float) else redact(str(value), self.secrets)


def _quote(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[^\s\"=]+", text) else json.dumps(text, ensure_ascii=False)


def configure(
    process_name: str, *, secrets: Iterable[str] = (), stream: TextIO | None = None, directory: Path | None = None
) -> None:
    """Send every record of this process to stderr and, with `directory`, to daily files.

    CLAWSITE_LOG=json|text, CLAWSITE_LOG_LEVEL=debug|info|warning|error.
    """
    json_lines = os.environ.get("CLAWSITE_LOG", "text").lower() == "json"
    handlers: list[logging.Handler] = [logging.StreamHandler(stream or sys.stderr)]
    if directory is not None:
        handlers.append(DailyFileHandler(directory))
    for handler in handlers:
        handler.setFormatter((JsonFormatter if json_lines else TextFormatter)(process_name, secrets))
    level = logging.getLevelNamesMapping().get(os.environ.get("CLAWSITE_LOG_LEVEL", "info").upper(), logging.INFO)
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(True)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
