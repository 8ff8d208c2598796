"""Code in colours: pygments' classes around its parts, no styles. static/css/code.css gives them colours.

The expressions of pygments' lexers are made for code, and other text can keep one busy for minutes while it holds the
interpreter. So a lexer is stopped when its time is over, and is not given lines that no person would read.
"""

import time
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

MAX_CODE_LENGTH = 100_000
MAX_LINE_LENGTH = 500
MAX_BLANK_LINES = 30  # in a row
TIMEOUT_SECONDS = 0.25  # of processor time for one block; 100 KB of usual code take 0.15

# Our names for pygments' kinds of token: what code.css colours. More would be noise.
CLASS_BY_TOKEN = {
    "Keyword.Type": "kt",
    "Keyword": "k",
    "Name.Builtin": "nb",
    "Name.Function": "nf",
    "Name.Class": "nc",
    "Name.Namespace": "nn",
    "Name.Decorator": "nd",
    "Name.Tag": "nt",
    "Name.Attribute": "na",
    "Name.Variable": "nv",
    "Name.Constant": "no",
    "Name.Exception": "ne",
    "Literal.String": "s",
    "Literal.Number": "m",
    "Operator.Word": "ow",
    "Operator": "o",
    "Comment.Preproc": "cp",
    "Comment": "c",
    "Generic.Deleted": "gd",
    "Generic.Inserted": "gi",
    "Generic.Heading": "gh",
    "Generic.Subheading": "gu",
    "Generic.Prompt": "gp",
    "Generic.Output": "go",
    "Generic.Emph": "ge",
    "Generic.Strong": "gs",
}
CLASSES = frozenset(CLASS_BY_TOKEN.values())

# pygments' name of a language, and what else people write behind the fence. Others are shown without colours: each lexer here
# was tried with text made to hold it up, and a name outside the list would make pygments look for plug-ins.
LANGUAGES = """\
bash sh shell zsh ksh
c h
clojure clj
cmake
console terminal shell-session
cpp c++ cc hpp cxx
csharp cs c#
css
dart
diff patch
docker dockerfile
elixir ex
erlang erl
fsharp f# fs
go golang
graphql gql
groovy gradle
haskell hs
html htm
http
ini cfg conf
java
javascript js mjs cjs node
jinja jinja2
json jsonc json5 jsonl
jsx
julia jl
kotlin kt
latex tex
less
lua
makefile make
markdown md
matlab
nginx
objective-c objc
ocaml ml
perl pl
php
powershell ps1 pwsh
protobuf proto
pycon
pytb traceback
python py python3 pyi
r
ruby rb
rust rs
scala
scss
sql postgres postgresql mysql sqlite
swift
terraform tf hcl
toml
tsx
typescript ts
vim
vue
xml svg
yaml yml
zig"""
LEXER_BY_ALIAS = {word: words[0] for words in map(str.split, LANGUAGES.splitlines()) for word in words}


def highlight(code: str, language: str) -> str:
    """HTML of the code: escaped, with spans for what is known of it."""
    lexer = _load_lexer(LEXER_BY_ALIAS.get(language.lower(), ""))
    if lexer is None or not _is_highlightable(code):
        return escape(code, quote=False)
    parts: list[str] = []
    for name, text in _tokenize(lexer, code):
        words = escape(text, quote=False)
        parts.append(f'<span class="{name}">{words}</span>' if name else words)
    return "".join(parts)


def _is_highlightable(code: str) -> bool:
    if len(code) > MAX_CODE_LENGTH:
        return False
    blank = 0
    for line in code.split("\n"):
        blank = 0 if line.strip() else blank + 1
        if len(line) > MAX_LINE_LENGTH or blank > MAX_BLANK_LINES:
            return False
    return True


def _tokenize(lexer: Any, code: str) -> Iterator[tuple[str, str]]:
    """(class, text), neighbours of one class together; what is left when the time is over has none."""
    until = time.thread_time() + TIMEOUT_SECONDS
    name, start, reached = "", 0, 0
    for at, kind, text in lexer.get_tokens_unprocessed(code):
        if (found := _find_class(kind)) != name:
            yield name, code[start:at]
            name, start = found, at
        reached = at + len(text)
        if time.thread_time() > until:
            break
    yield name, code[start:reached]
    yield "", code[reached:]


@cache
def _find_class(kind: Any) -> str:
    """By pygments' kind or, where we have no name for it, by the kind it is one of."""
    parts = str(kind).removeprefix("Token.").split(".")
    longer_first = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((CLASS_BY_TOKEN[one] for one in longer_first if one in CLASS_BY_TOKEN), "")


@cache
def _load_lexer(name: str) -> Any:
    if not name:
        return None
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # pygments has no types

    return get_lexer_by_name(name)
