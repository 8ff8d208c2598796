"""Markdown as safe HTML, for pages. Derived from the text each time; it is in no event and no row."""

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
# Threads of their own: the readers of the database must not wait behind somebody's long text.
_renderers = ThreadPoolExecutor(2, thread_name_prefix="render")

Block = Annotated[str, Field(max_length=MAX_CHARACTERS)]


class RenderParams(Params):
    """At most 64 blocks, and 256 KiB of text in all."""

    blocks: list[Block] = Field(max_length=MAX_BLOCKS)


class RenderAnswer(TypedDict):
    """One piece of HTML for each block."""

    html: list[str]


@method("chat.render", scope=Scope.READ)
async def chat_render(call: Call, params: RenderParams) -> RenderAnswer:
    """Render Markdown to HTML that is safe to put into a page: only text, lists, tables, code and links to the web."""
    if sum(map(len, params.blocks)) > MAX_CHARACTERS:
        raise InvalidRequest(f"the blocks have more than {MAX_CHARACTERS} characters in all; ask for fewer at once")
    return RenderAnswer(html=await _render_blocks(params.blocks))


async def render_messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages, text blocks of people and agents with their `html`: the newest, as far as the reply has room for it.

    Of the notices only summaries have such text.
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
        has_words = message.get("role") in ("user", "assistant") or message.get("notice") == "compaction"
        if room > 0 and has_words:
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
