"""Render text that approvers rely on as HTML in which every character is visible. All of it is escaped, none is omitted.

Characters that are invisible or change the reading order are shown as their code point: ⟨U+202E⟩. The parts of a
command are also highlighted by kind.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from html import escape  # not Django's escape: plain strings are faster, and a page has thousands of parts
from itertools import groupby
from typing import Any

from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_lazy

from clawsite.infra.reasons import Reason, format_text
from tools_app.core.hidden_characters import INVISIBLE_IN_NAME

PLAIN_TEXT = re.compile(r"[ -~]*")
INLINE_CODE = re.compile(r"`([^`\n]+)`")
LINE_BREAK_HTML = '<span class="newline">\n</span>'  # the stylesheet adds an arrow
TAB_HTML = '<span class="tab">\t</span>'
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
MAX_NAMED = 3  # non-ASCII letters named in a tooltip, so that a Cyrillic letter can't pass for a Latin one

KIND_LABELS: dict[str, str | Promise] = {
    "program": gettext_lazy("program"),
    "builtin": gettext_lazy("shell built-in"),
    "argument": gettext_lazy("argument"),
    "operator": gettext_lazy("operator"),
    "redirect": gettext_lazy("redirection"),
    "assignment": gettext_lazy("variable"),
    "substitution": gettext_lazy("output of another command"),
    "text": gettext_lazy("text"),
}


def to_visible_html(text: str) -> SafeString:
    """Render text from people or programs. Line breaks stay line breaks."""
    if PLAIN_TEXT.fullmatch(text):
        return mark_safe(escape(text))  # noqa: S308  # escaped
    return mark_safe("".join(run if kind == "break" else _run_html(kind, run) for kind, run in _split_runs(text)))  # noqa: S308  # each escaped


def reason_html(reason: Reason) -> SafeString:
    """Render a reason in the reader's language. Its parameters, such as file names, come from the command."""
    params = {
        name: reason_html(value) if isinstance(value, Reason) else to_visible_html(str(value))
        for name, value in reason.params.items()
    }
    return mark_safe(format_text(escape(gettext(reason.template), quote=False), params))  # noqa: S308  # escaped


def agent_text_html(text: str) -> SafeString:
    """Render an agent's text. `code` is the only markup that is interpreted."""
    pieces = INLINE_CODE.split(text)  # every second piece was between backticks
    rendered = (
        f"<code>{to_visible_html(piece)}</code>" if number % 2 else to_visible_html(piece) for number, piece in enumerate(pieces)
    )
    return mark_safe("".join(rendered))  # noqa: S308  # each escaped


def command_html(line: str, parts: Sequence[Mapping[str, Any]]) -> SafeString:
    """Render a command line with each part marked. Where parts are nested, the innermost one applies."""
    owners: list[int] = [-1] * len(line)
    known = [part for part in parts if 0 <= part["begin"] < part["end"] <= len(line)]
    for index, part in sorted(enumerate(known), key=lambda each: each[1]["begin"] - each[1]["end"]):
        owners[part["begin"] : part["end"]] = [index] * (part["end"] - part["begin"])
    pieces, start = [], 0
    for owner, run in groupby(owners):
        end = start + sum(1 for _ in run)
        html = _literal_html(line[start:end])
        pieces.append(_part_html(html, known[owner]) if owner >= 0 else html)
        start = end
    return mark_safe("".join(pieces))  # noqa: S308  # each escaped


def _part_html(html: str, part: Mapping[str, Any]) -> str:
    kind = part["kind"] if part["kind"] in KIND_LABELS else "text"
    title = f"{KIND_LABELS[kind]}: {part['note']}" if part.get("note") else str(KIND_LABELS[kind])
    return f'<span class="part {kind}" title="{escape(_tooltip_text(title))}">{html}</span>'


def _literal_html(text: str) -> str:
    if PLAIN_TEXT.fullmatch(text):
        return escape(text)
    return "".join(_run_html(kind, run) for kind, run in _split_runs(text))


def _split_runs(text: str) -> Iterator[tuple[str, str]]:
    """Yield runs of characters that are displayed the same way."""
    kinds = [_classify(character, text[index - 1] if index else " ") for index, character in enumerate(text)]
    for kind, indexes in groupby(range(len(text)), key=kinds.__getitem__):
        yield kind, "".join(text[index] for index in indexes)


def _classify(character: str, before: str) -> str:
    if " " <= character <= "~":
        return "plain"
    if character in "\n\t":
        return "break" if character == "\n" else "tab"
    category = unicodedata.category(character)
    if category in INVISIBLE_CATEGORIES or INVISIBLE_IN_NAME.match(character):
        return "odd"
    # A combining mark on another one, or on an ASCII letter, can cover its base character.
    if category.startswith("M") and (before.isascii() or unicodedata.category(before).startswith("M")):
        return "odd"
    return "foreign"


def _run_html(kind: str, run: str) -> str:
    match kind:
        case "break":
            return LINE_BREAK_HTML * len(run)
        case "tab":
            return TAB_HTML * len(run)
        case "odd":
            return "".join(f'<span class="odd" title="{_character_name(each)}">⟨U+{ord(each):04X}⟩</span>' for each in run)
        case "foreign":
            names = ", ".join(_character_name(each) for each in dict.fromkeys(run[:MAX_NAMED]))
            return f'<span class="foreign" title="{names}">{escape(run)}</span>'
        case _:
            return escape(run)


def _tooltip_text(text: str) -> str:
    """Make text visible without markup, for tooltips."""
    if PLAIN_TEXT.fullmatch(text):
        return text
    return "".join(
        f"⟨U+{ord(character):04X}⟩" if _classify(character, " ") not in ("plain", "foreign") else character for character in text
    )


def _character_name(character: str) -> str:
    return escape(unicodedata.name(character, f"U+{ord(character):04X}"))
