"""Usage per message of a session, in the form of OpenClaw's usage page."""

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ByKey, find_session
from clawsite.infra import db
from sessions_app.reports.usage import LogEntry, read_usage_log


class LogParams(ByKey):
    limit: int = Field(200, ge=1, le=1000)


class LogAnswer(TypedDict):
    logs: list[LogEntry]


@method("sessions.usage.logs", scope=Scope.READ)
async def logs(call: Call, params: LogParams) -> LogAnswer:
    """Return a session's last messages, shortened, oldest first, with the tokens and cost of each answer."""
    return LogAnswer(logs=await db.read(read_usage_log, await find_session(call, params.address), params.limit))
