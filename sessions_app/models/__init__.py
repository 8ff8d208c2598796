"""Tables of the state layer, one module per model."""

from sessions_app.models.attachment import Attachment
from sessions_app.models.event import Event
from sessions_app.models.event_log import EventLog
from sessions_app.models.freeze import Freeze
from sessions_app.models.lane import Lane
from sessions_app.models.mark import SessionMark
from sessions_app.models.outbox import Outbox
from sessions_app.models.run import Run
from sessions_app.models.run_wait import RunWait
from sessions_app.models.session import Session, SessionMember
from sessions_app.models.system_event import SystemEvent
from sessions_app.models.tool_call import ToolCall
from sessions_app.models.transcript import TranscriptEntry
from sessions_app.models.worker import Worker

__all__ = [
    "Attachment",
    "Event",
    "EventLog",
    "Freeze",
    "Lane",
    "Outbox",
    "Run",
    "RunWait",
    "Session",
    "SessionMark",
    "SessionMember",
    "SystemEvent",
    "ToolCall",
    "TranscriptEntry",
    "Worker",
]
