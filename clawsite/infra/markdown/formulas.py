"""Formulas in Markdown: `$…$`, `\\(…\\)`, `$$…$$` and `\\[…\\]` are kept as written, including the delimiters.

Without this, `_` and `*` in a formula would become emphasis. Formulas are not typeset.
"""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

INLINE_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
BLOCK_DELIMITERS = {"$$": "$$", "\\[": "\\]"}
MAX_FORMULA_LENGTH = 4_000  # characters; limits the search for the closing delimiter
MAX_LINES = 40


def math_plugin(md: "MarkdownIt") -> None:
    md.inline.ruler.before("escape", "math", _parse_inline)
    md.block.ruler.before("fence", "math_block", _parse_block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    md.add_render_rule("math", _render)
    md.add_render_rule("math_block", _render)


def _parse_inline(state: "StateInline", silent: bool) -> bool:
    for opening, closing in INLINE_DELIMITERS:
        if not state.src.startswith(opening, state.pos):
            continue
        start = state.pos + len(opening)
        end = state.src.find(closing, start, start + MAX_FORMULA_LENGTH)
        if end <= start or (opening == "$" and not _is_formula(state.src, start, end)):
            return False
        if not silent:
            state.push("math", "span", 0).content = state.src[state.pos : end + len(closing)]
        state.pos = end + len(closing)
        return True
    return False


def _is_formula(text: str, start: int, end: int) -> bool:
    """Exclude money such as "$5 and $6": no space next to the delimiters, and no digit after the closing one."""
    return not text[start].isspace() and not text[end - 1].isspace() and not text[end + 1 : end + 2].isdigit()


def _parse_block(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """Parse from a line that begins with a delimiter to the first that ends with its counterpart, with no blank line between."""
    if state.is_code_block(start):
        return False
    first = _read_line(state, start)
    closing = BLOCK_DELIMITERS.get(first[:2])
    if closing is None:
        return False
    begin = state.bMarks[start] + state.tShift[start]
    if state.src.find(closing, begin + 2, begin + MAX_FORMULA_LENGTH) < 0:
        return False
    end, last = min(end, start + MAX_LINES), start
    while not (_read_line(state, last).rstrip().endswith(closing) and (last > start or len(first.rstrip()) > 4)):
        last += 1
        if last >= end or state.isEmpty(last) or state.sCount[last] < state.blkIndent:
            return False
    if not silent:
        token = state.push("math_block", "div", 0)
        token.content = state.getLines(start, last + 1, state.blkIndent, False).strip()
        token.map = [start, last + 1]
        state.line = last + 1
    return True


def _read_line(state: "StateBlock", number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _render(_renderer: Any, tokens: "Sequence[Token]", at: int, _options: Any, _env: Any) -> str:
    token = tokens[at]
    return f'<{token.tag} class="math">{escape(token.content, quote=False)}</{token.tag}>' + ("\n" if token.tag == "div" else "")
