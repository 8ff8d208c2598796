"""Syntax highlighting: wrap code in spans with pygments' class names. static/css/code.css sets the colors.

Text that is not code can keep the regular expressions of a pygments lexer busy for minutes while they hold the GIL. So a
lexer is stopped at a time limit, and code with very long lines is not highlighted.
"""

import time
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

MAX_CODE_LENGTH = 100_000
MAX_LINE_LENGTH = 500
MAX_BLANK_LINES = 30  # in a row
TIMEOUT_SECONDS = 0.25  # CPU seconds per block; 100 KB of ordinary code takes 0.15 s

# CSS classes for pygments' token types: those that code.css colors.
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

# pygments' name of each language, then its aliases. Other languages are not highlighted: each lexer here was tested with
# adversarial text, and an unknown name would make pygments search for plugins.
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
LEXER_BY_ALIAS = {alias: names[0] for names in map(str.split, LANGUAGES.splitlines()) for alias in names}


def highlight(code: str, language: str) -> str:
    """Return the code as escaped HTML, with spans if the language is known."""
    lexer = _load_lexer(LEXER_BY_ALIAS.get(language.lower(), ""))
    if lexer is None or not _is_highlightable(code):
        return escape(code, quote=False)
    parts: list[str] = []
    for name, text in _tokenize(lexer, code):
        escaped = escape(text, quote=False)
        parts.append(f'<span class="{name}">{escaped}</span>' if name else escaped)
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
    """Yield (class, text), merging neighbors of the same class. Text after the timeout has no class."""
    until = time.thread_time() + TIMEOUT_SECONDS
    name, start, reached = "", 0, 0
    for at, kind, text in lexer.get_tokens_unprocessed(code):
        if (token_class := _find_class(kind)) != name:
            yield name, code[start:at]
            name, start = token_class, at
        reached = at + len(text)
        if time.thread_time() > until:
            break
    yield name, code[start:reached]
    yield "", code[reached:]


@cache
def _find_class(kind: Any) -> str:
    """Return the class of a token type, or of its closest parent that has one."""
    parts = str(kind).removeprefix("Token.").split(".")
    longest_first = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((CLASS_BY_TOKEN[name] for name in longest_first if name in CLASS_BY_TOKEN), "")


@cache
def _load_lexer(name: str) -> Any:
    if not name:
        return None
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # pygments has no type hints

    return get_lexer_by_name(name)
