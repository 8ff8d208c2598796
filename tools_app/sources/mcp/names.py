"""Names of MCP servers and their tools. Pure.

A tool is offered as `<server>__<tool>`. A server's name never contains or ends in anything that could make its tools look
like another server's: `weather__*` in a policy means the server `weather` and nothing else.
"""

import hashlib
import re

from tools_app.core.cleaning import clean_text
from tools_app.core.definition import TOOL_NAME
from tools_app.core.hidden_characters import remove_hidden

MAX_SERVER_NAME = 32
SERVER_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
SEPARATOR = "__"
MAX_TOOL_NAME = 64


def is_server_name(name: str) -> bool:
    return len(name) <= MAX_SERVER_NAME and SERVER_NAME.fullmatch(name) is not None


def tool_prefix(server: str) -> str:
    """The prefix of the server's tool names; the same for `my-server` and `my_server`."""
    return server.replace("-", "_") + SEPARATOR


def make_tool_name(server: str, tool: str) -> str:
    """Return the name the model uses: lowercase, other characters replaced by _; a long name ends in a hash."""
    name = tool_prefix(server) + re.sub(r"[^a-z0-9_]", "_", tool.lower())
    if len(name) > MAX_TOOL_NAME:
        name = f"{name[: MAX_TOOL_NAME - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"
    if not TOOL_NAME.fullmatch(name):
        raise ValueError(f"invalid server name {server!r}")
    return name


TRUNCATION_MARK = " […]"


def clean_label(text: str, limit: int) -> str:
    """Return the text without hidden characters, truncated to `limit`."""
    cleaned = remove_hidden(clean_text(text[: 4 * limit]))[0].strip()  # long texts aren't scanned to the end
    return cleaned if len(cleaned) <= limit else cleaned[: limit - len(TRUNCATION_MARK)].rstrip() + TRUNCATION_MARK
