"""Render Markdown to safe HTML for pages. It is rendered on each request and not stored."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import orjson
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.params import Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra.errors import InvalidRequest
from clawsite.infra.markdown.render import render_markdown

MAX_BLOCKS = 64
MAX_CHARACTERS = 256 << 10
# Separate threads, so that database reads don't wait for the rendering of a long text.
_renderers = ThreadPoolExecutor(2, thread_name_prefix="render")

Block = Annotated[str, Field(max_length=MAX_CHARACTERS)]


class RenderParams(Params):
    """At most 64 blocks and 262,144 characters in total."""

    blocks: list[Block] = Field(max_length=MAX_BLOCKS)


class RenderAnswer(TypedDict):
    """The HTML of each block."""

    html: list[str]


@method("chat.render", scope=Scope.READ)
async def chat_render(call: Call, params: RenderParams) -> RenderAnswer:
    """Render Markdown to HTML that is safe to embed in a page: only text, lists, tables, code and web links."""
    if sum(map(len, params.blocks)) > MAX_CHARACTERS:
        raise InvalidRequest(f"the blocks exceed {MAX_CHARACTERS} characters in total; request fewer at once")
    return RenderAnswer(html=await _render_blocks(params.blocks))


async def render_messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add `html` to the text blocks of users and agents, newest first, as long as the response has room.

    Among notices, only compaction summaries get it.
    """
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_renderers, _add_html, messages)


async def _render_blocks(texts: Sequence[str]) -> list[str]:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_renderers, lambda: [render_markdown(text) for text in texts])


def _add_html(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    room = limits.MAX_REPLY_BYTES - len(orjson.dumps(messages))
    shown: list[dict[str, Any]] = []
    for message in reversed(messages):
        has_text = message.get("role") in ("user", "assistant") or message.get("notice") == "compaction"
        if room > 0 and has_text:
            content = []
            for block in message["content"]:
                if block.get("type") == "text" and room > 0:
                    html = render_markdown(block["text"])
                    room -= len(orjson.dumps(html)) + 10
                    block = {**block, "html": html} if room > 0 else block
                content.append(block)
            message = {**message, "content": content}
        shown.append(message)
    shown.reverse()
    return shown
