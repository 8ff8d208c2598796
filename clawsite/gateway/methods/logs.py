"""The logs of this host's processes, for operators."""

import asyncio
from typing import NotRequired

from django.conf import settings
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.params import Cursor, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra.errors import Forbidden, NotFound
from clawsite.infra.observability import log_files


class TailParams(Params):
    """`cursor` and `file` are those of the previous response. Each day starts a new file, which `reset` reports."""

    cursor: Cursor | None = None
    file: str | None = Field(None, min_length=1, max_length=64)
    limit: int = Field(500, ge=1, le=5000)
    max_bytes: int = Field(250_000, ge=1, le=1_000_000)


class TailAnswer(TypedDict):
    """`truncated` means that there is more after the requested cursor, or, without one, `skippedBytes` of earlier lines."""

    file: str
    cursor: int
    size: int
    lines: list[str]
    truncated: bool
    reset: bool
    skippedBytes: NotRequired[int]


@method("logs.tail", scope=Scope.READ)
async def tail(call: Call, params: TailParams) -> TailAnswer:
    """Return the last log lines of the host that responds, or those after `cursor`, a byte offset. At most 384 KiB per request.

    The credentials must allow operator.admin. The connection need not have requested it: OpenClaw's command line only requests
    operator.read.
    """
    if not call.authority.credential_allows(Scope.ADMIN):
        details = {"code": "MISSING_SCOPE", "missingScope": Scope.ADMIN, "requiredScopes": [Scope.ADMIN]}
        raise Forbidden(f"missing scope: {Scope.ADMIN}", details=details)
    return await asyncio.to_thread(_tail, params)


def _tail(params: TailParams) -> TailAnswer:
    file = log_files.find_newest_file(settings.LOG_DIRECTORY)
    if file is None:
        raise NotFound("there is no log file yet; `claw serve`, `claw web` and `claw worker` write one")
    max_bytes = min(params.max_bytes, limits.MAX_REPLY_BYTES // 2)
    chunk = log_files.read_chunk(file, cursor=params.cursor, name=params.file, max_lines=params.limit, max_bytes=max_bytes)
    answer = TailAnswer(
        file=file.name, cursor=chunk.cursor, size=chunk.size, lines=chunk.lines, truncated=chunk.truncated, reset=chunk.reset
    )
    if chunk.skipped:
        answer["skippedBytes"] = chunk.skipped
    return answer
