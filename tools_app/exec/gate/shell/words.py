"""Read words of the syntax tree: the text they become, or what is known about it before the line runs. No I/O.

The text of a word with a variable, glob or brace is unknown, but often enough is known: that it stays one word, that it can't
start with a dash, that it names something below the current directory. The walker handles substitutions; here they are unknown
text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.shell.shfmt import Node

register_reasons(
    {
        "word.escapes": gettext_noop("a $'…' string with escapes"),
        "word.tilde": gettext_noop("a tilde expansion"),
        "word.braces": gettext_noop("a brace expansion"),
        "word.glob": gettext_noop("a glob"),
        "word.expansion": gettext_noop("a parameter expansion"),
        "word.variable": gettext_noop("the variable ${name}"),
    }
)

TILDE, GLOB, HOME = Reason("word.tilde"), Reason("word.glob"), Reason("word.variable", name="HOME")
GLOB_CHARACTERS = re.compile(r"[*?\[]")
SPLITTING_CHARACTERS = re.compile(r"[\s*?\[\]~{}\\]")  # unquoted, a value with one of these may be split or expanded
ABSOLUTE_VARIABLES = frozenset({"HOME", "PWD"})  # the command's environment sets them to absolute paths
MULTI_WORD_PARAMETERS = frozenset({"@", "*"})


@dataclass(frozen=True, slots=True)
class Word:
    begin: int = 0  # in bytes
    end: int = 0
    text: str | None = None  # the resulting text, if certain
    lead: str = ""  # the literal text before the first expansion
    single: bool = True  # always one word; otherwise it may become none or many
    dashless: bool = True  # nothing it becomes starts with a dash
    local: bool = True  # nothing it becomes is an absolute path or contains ..
    listed: bool = False  # dashless only if no file name in the directory starts with a dash
    dynamic: Reason | None = None  # why the text is uncertain

    @property
    def shown(self) -> str | Reason:
        return self.text or self.dynamic or ""


@dataclass(frozen=True, slots=True)
class Variables:
    """What the line assigns to its variables, anywhere in it."""

    words: Mapping[str, tuple[Word, ...]] = field(default_factory=dict)
    numbers: frozenset[str] = frozenset()  # only ever assigned whole numbers
    certain: frozenset[str] = frozenset()  # certainly assigned before this point


@dataclass(frozen=True, slots=True)
class _WordPiece:
    text: str | None  # None: unknown
    what: Reason | None = None
    single: bool = True
    splits: bool = False  # may become several words that start with anything
    dashless: bool = False
    local: bool = False
    listed: bool = False
    filled: bool = False  # not empty


def read_word(node: Node, variables: Variables) -> Word:
    pieces = list(_split_pieces(node, variables))
    begin, end = node["Pos"]["Offset"], node["End"]["Offset"]
    texts = [piece.text for piece in pieces]
    known = [text for text in texts if text is not None]
    if len(known) == len(pieces):
        text = "".join(known)
        return Word(begin, end, text, text, dashless=not text.startswith("-"), local=is_local(text))
    first = texts.index(None)
    lead = "".join(text for text in texts[:first] if text is not None)
    opening = pieces[first]
    return Word(
        begin,
        end,
        None,
        lead,
        single=all(piece.single for piece in pieces),
        dashless=_is_dashless(lead, pieces[first:]),
        local=_is_local(pieces),
        listed=opening.listed and not lead,
        dynamic=opening.what,
    )


def is_local(path: str) -> bool:
    return not path.startswith(("/", "~")) and ".." not in path.split("/")


def _is_dashless(lead: str, rest: list[_WordPiece]) -> bool:
    if any(piece.splits for piece in rest):
        return False
    if lead:
        return not lead.startswith("-")
    # The first piece may turn out empty; then the next one starts the word.
    return rest[0].dashless and all(piece.text is not None and not piece.text.startswith("-") for piece in rest[1:])


def _is_local(pieces: list[_WordPiece]) -> bool:
    """An expansion may turn out empty, so the rest must be local as well: "$x/etc" is /etc if x is empty."""
    if not all(piece.text is not None or piece.local for piece in pieces):
        return False
    texts = [piece.text if piece.text is not None else "x" if piece.filled else "" for piece in pieces]
    if any(".." in text for text in texts) or not is_local("".join(texts)):
        return False
    # In older shells, .* also matches the parent directory.
    return not any(_ends_in_dot(left) and right.what == GLOB for left, right in pairwise(pieces))


def _ends_in_dot(piece: _WordPiece) -> bool:
    return piece.text is not None and piece.text.rpartition("/")[2] == "."


def _split_pieces(node: Node, variables: Variables) -> Iterator[_WordPiece]:
    parts = node.get("Parts", [])
    bare = "".join(re.sub(r"\\.", "", part["Value"]) for part in parts if part["Type"] == "Lit")
    braces = "{" in bare and ("," in bare or ".." in bare)
    for index, part in enumerate(parts):
        match part["Type"]:
            case "Lit":
                yield from _split_unquoted(part["Value"], first=index == 0, braces=braces)
            case "SglQuoted" if part.get("Dollar") and "\\" in part.get("Value", ""):
                yield _WordPiece(None, Reason("word.escapes"))
            case "SglQuoted":
                yield _WordPiece(part.get("Value", ""))  # '' has no value
            case "DblQuoted":
                for inner in part.get("Parts", []):
                    if inner["Type"] == "Lit":
                        yield _WordPiece(re.sub(r'\\([$`"\\])', r"\1", inner["Value"]))
                    else:
                        yield _read_expansion(inner, variables, quoted=True)
                if not part.get("Parts"):
                    yield _WordPiece("")
            case _:
                yield _read_expansion(part, variables, quoted=False)


def _split_unquoted(raw: str, *, first: bool, braces: bool) -> Iterator[_WordPiece]:
    if first and raw.startswith("~"):
        yield _WordPiece(None, TILDE, dashless=True)
        return
    if re.search(r"[=:]~", raw):  # bash also expands it there, in words that look like assignments
        yield _WordPiece(None, TILDE)
        return
    if raw == "[":
        yield _WordPiece(raw)  # the command `[`; a glob would also need the closing bracket
        return
    bare = re.sub(r"\\.", lambda match: "\0" * len(match[0]), raw)
    marks = [match.start() for match in (GLOB_CHARACTERS.search(bare), re.search("{", bare) if braces else None) if match]
    if not marks:
        yield _WordPiece(re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL))
        return
    at = min(marks)
    if at:
        yield _WordPiece(re.sub(r"\\(.)", r"\1", raw[:at], flags=re.DOTALL))
    if bare[at] == "{":
        yield _WordPiece(None, Reason("word.braces"), single=False, local=is_local(raw[at:]) and "/" not in raw[at:])
    else:
        yield _WordPiece(None, GLOB, single=False, dashless=True, local=is_local(raw[at:]), listed=True)


def _read_expansion(part: Node, variables: Variables, *, quoted: bool) -> _WordPiece:
    if part["Type"] != "ParamExp":
        return _WordPiece(None, Reason("word.expansion"), single=quoted, splits=not quoted)
    name = part.get("Param", {}).get("Value", "")
    plain = part.keys() <= {"Type", "Pos", "End", "Dollar", "Short", "Rbrace", "Param"}
    what = Reason("word.variable", name=name)
    if name in variables.numbers:
        return _WordPiece(None, what, local=True)
    if name in ABSOLUTE_VARIABLES and plain and quoted:
        return _WordPiece(None, what, dashless=True)
    values = variables.words.get(name, ())
    if not plain or not values or name in MULTI_WORD_PARAMETERS:
        return _WordPiece(
            None, what, single=quoted and name not in MULTI_WORD_PARAMETERS, splits=not quoted or name in MULTI_WORD_PARAMETERS
        )
    unsplit = all(value.text is not None and not SPLITTING_CHARACTERS.search(value.text) for value in values)
    # A value that starts or ends with a dot, or ends with a slash, could form .. with its neighbors.
    no_dots = not any((value.text or value.lead).startswith(".") or (value.text or "").endswith((".", "/")) for value in values)
    return _WordPiece(
        None,
        what,
        single=quoted,  # the variable may still be unset, which leaves no word
        splits=not quoted and not unsplit,
        dashless=all(value.dashless for value in values),
        local=no_dots and all(value.local for value in values),
        listed=any(value.listed for value in values),
        filled=name in variables.certain and all(value.text != "" and (value.text or value.dynamic == GLOB) for value in values),
    )
