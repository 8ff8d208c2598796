"""The tools that reach the agents' own world, gathered for the registry, which looks into every `agent_tools` module."""

from agents.memory_tools import make_memory_get, make_memory_search
from agents.message_tool import make_message
from agents.send_tool import make_sessions_send
from agents.session_tools import make_agents_list, make_session_status, make_sessions_history, make_sessions_list

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
