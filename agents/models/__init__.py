"""Models of the agents app."""

from agents.models.agent import MAIN_AGENT, Agent, install_main_agent
from agents.models.memory import MemoryChunk, MemoryFile

__all__ = ["MAIN_AGENT", "Agent", "MemoryChunk", "MemoryFile", "install_main_agent"]
