"""Text that somebody decides by, as HTML in which every character can be seen. Nothing of it is markup, nothing is left out.

A character without a shape, or one that changes the order in which others are read, becomes its number: ⟨U+202E⟩. A command is
also coloured by what its parts are.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from html import escape  # plain strings; a page has thousands of parts
from itertools import groupby
from typing import Any

from django.utils.functional import Promise
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy

from tools_app.core.hidden_characters import INVISIBLE_IN_NAME

PLAIN_TEXT = re.compile(r"[ -~]*")
INLINE_CODE = re.compile(r"`([^`\n]+)`")
LINE_BREAK_HTML = '<span class="newline">\n</span>'  # its arrow is drawn by the stylesheet
TAB_HTML = '<span class="tab">\t</span>'
INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
MAX_NAMED = 3  # of the letters that are not ASCII: their names, so that a Cyrillic one does not pass for a Latin one

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
    """Words of people and programs: line breaks stay line breaks."""
    if PLAIN_TEXT.fullmatch(text):
        return mark_safe(escape(text))  # noqa: S308  # escaped
    return mark_safe("".join(run if kind == "break" else _run_html(kind, run) for kind, run in _split_runs(text)))  # noqa: S308  # each escaped


def agent_text_html(text: str) -> SafeString:
    """The same for an agent's words, in which `code` looks like code. Nothing else of its marks counts."""
    pieces = INLINE_CODE.split(text)  # what stands between two backticks is every second one
    shown = (
        f"<code>{to_visible_html(piece)}</code>" if number % 2 else to_visible_html(piece) for number, piece in enumerate(pieces)
    )
    return mark_safe("".join(shown))  # noqa: S308  # each escaped


def command_html(line: str, parts: Sequence[Mapping[str, Any]]) -> SafeString:
    """A command line, each part marked. Where parts lie within each other, the inner one counts."""
    owners: list[int] = [-1] * len(line)
    known = [part for part in parts if 0 <= part["begin"] < part["end"] <= len(line)]
    for index, part in sorted(enumerate(known), key=lambda each: each[1]["begin"] - each[1]["end"]):
        owners[part["begin"] : part["end"]] = [index] * (part["end"] - part["begin"])
    pieces, place = [], 0
    for owner, run in groupby(owners):
        end = place + sum(1 for _ in run)
        text = _literal_html(line[place:end])
        pieces.append(_part_html(text, known[owner]) if owner >= 0 else text)
        place = end
    return mark_safe("".join(pieces))  # noqa: S308  # each escaped


def _part_html(shown: str, part: Mapping[str, Any]) -> str:
    kind = part["kind"] if part["kind"] in KIND_LABELS else "text"
    title = f"{KIND_LABELS[kind]}: {part['note']}" if part.get("note") else str(KIND_LABELS[kind])
    return f'<span class="part {kind}" title="{escape(_tooltip_text(title))}">{shown}</span>'


def _literal_html(text: str) -> str:
    if PLAIN_TEXT.fullmatch(text):
        return escape(text)
    return "".join(_run_html(kind, run) for kind, run in _split_runs(text))


def _split_runs(text: str) -> Iterator[tuple[str, str]]:
    """Stretches of characters that are shown in the same way."""
    kinds = [_classify(character, text[place - 1] if place else " ") for place, character in enumerate(text)]
    for kind, places in groupby(range(len(text)), key=kinds.__getitem__):
        yield kind, "".join(text[place] for place in places)


def _classify(character: str, before: str) -> str:
    if " " <= character <= "~":
        return "plain"
    if character in "\n\t":
        return "break" if character == "\n" else "tab"
    category = unicodedata.category(character)
    if category in INVISIBLE_CATEGORIES or INVISIBLE_IN_NAME.match(character):
        return "odd"
    # An accent on top of another, or on an ASCII letter, can cover what it stands on.
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
    """For a tooltip, which has no marks of its own."""
    if PLAIN_TEXT.fullmatch(text):
        return text
    return "".join(
        f"⟨U+{ord(character):04X}⟩" if _classify(character, " ") not in ("plain", "foreign") else character for character in text
    )


def _character_name(character: str) -> str:
    return escape(unicodedata.name(character, f"U+{ord(character):04X}"))
