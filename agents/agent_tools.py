"""Tools for memory, messages and sessions. The tool registry imports every `agent_tools` module."""

from agents.tools.memory import make_memory_get, make_memory_search
from agents.tools.message import make_message
from agents.tools.sessions import make_agents_list, make_session_status, make_sessions_history, make_sessions_list
from agents.tools.sessions_send import make_sessions_send

__all__ = [
    "make_agents_list",
    "make_memory_get",
    "make_memory_search",
    "make_message",
    "make_session_status",
    "make_sessions_history",
    "make_sessions_list",
    "make_sessions_send",
]
