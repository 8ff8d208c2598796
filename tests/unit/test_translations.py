"""Every string shown to people can be translated, and Simplified Chinese is complete and compiled."""

import gettext
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.template.base import Lexer, TokenType

ROOT = Path(__file__).parents[2]
WITH_WORDS = ("agents", "clawsite", "sessions_app", "tools_app", "templates", "locale")
CATALOGUE = Path("locale/zh_Hans/LC_MESSAGES/django.po")
TEMPLATES = sorted((ROOT / "templates").rglob("*.*"))
SCRIPTS = sorted((ROOT / "static/js").rglob("*.js"))

# %(name)s and %d of Python, %%n and %%s of the scripts (a template doubles the percent sign), {name} of format_html, tags.
PLACEHOLDER = re.compile(r"%%[ns]|%\(\w+\)[sd]|%[sd]|\{\w*\}|</?\w+[^>]*>")

# Our name, and examples of input, including `git status && ls -la | head` and `/usr/bin/ls`.
NOT_TRANSLATED = {"Clawsite", "main", "openai", "gpt-5", "telegram", "git", "status", "ls", "la", "head", "usr", "bin"}
SPOKEN = {"alt", "aria-label", "placeholder", "title"}
NOT_SPOKEN = {"kbd", "script", "style", "code"}  # keys and code are the same in every language
# Quoted in a script but not shown to people: for developers, for CSS, or names of functions.
NO_SENTENCES = {
    "lim max min sup inf limsup liminf argmax argmin det gcd",
    "light dark",
    ": no response within ms",
    "no hello",
    "no error details",
    "not connected",
    "mismatched end",
    "right left",
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp log ln lg dim ker deg hom arg Pr",
    "unclosed group",
    "unexpected end of formula",
    "tick timeout",
}

needs_gettext = pytest.mark.skipif(
    shutil.which("xgettext") is None, reason="gettext is not installed (Debian: apt-get install gettext)"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files with strings, so that extracting them changes nothing here."""
    copy = tmp_path_factory.mktemp("words")
    for name in WITH_WORDS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def lacking(tree: Path) -> list[str]:
    """Return the strings without a translation or with a fuzzy one, and the obsolete translations."""
    before = _msgids(tree / CATALOGUE)
    command = [sys.executable, "-m", "django", "makemessages", "--locale", "zh_Hans", "--no-location", "--no-obsolete", "--no-wrap"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "clawsite.settings", "PYTHONPATH": str(tree)}
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    open_ones = [_msgids(tree / CATALOGUE, option) for option in ("--untranslated", "--only-fuzzy")]
    return sorted({*open_ones[0], *open_ones[1], *(before - _msgids(tree / CATALOGUE))})


def _msgids(catalogue: Path, option: str = "--no-obsolete") -> set[str]:
    shown = subprocess.run(["msgattrib", option, "--no-wrap", catalogue], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r'^msgid "(.+)"$', shown, re.MULTILINE))


def _translations(compiled: Path) -> dict[str | tuple[str, int], str]:
    with compiled.open("rb") as file:
        entries: dict[str | tuple[str, int], str] = vars(gettext.GNUTranslations(file))["_catalog"]
    return {key: words for key, words in entries.items() if key}


@needs_gettext
def test_chinese_translation_is_complete(tree: Path) -> None:
    assert lacking(tree) == [], "run `make messages` and translate these"


@needs_gettext
def test_missing_and_obsolete_translations_are_detected(tree: Path, tmp_path: Path) -> None:
    faulty = tmp_path / "tree"
    shutil.copytree(tree, faulty)
    catalogue = faulty / CATALOGUE
    words = catalogue.read_text()
    entry = re.search(r'msgid "Sign out all others"\nmsgstr ".+"\n', words)
    assert entry
    catalogue.write_text(words.replace(entry[0], 'msgid "Nobody says this"\nmsgstr "无"\n'))
    assert lacking(faulty) == ["Nobody says this", "Sign out all others"]


@needs_gettext
def test_committed_mo_file_matches_catalogue(tmp_path: Path) -> None:
    compiled = tmp_path / "django.mo"
    subprocess.run(["msgfmt", "--check-format", "-o", compiled, ROOT / CATALOGUE], check=True)
    assert _translations(compiled) == _translations((ROOT / CATALOGUE).with_suffix(".mo")), "run `make messages`"


def test_translations_keep_their_placeholders() -> None:
    different = []
    for key, words in _translations((ROOT / CATALOGUE).with_suffix(".mo")).items():
        source = (key if isinstance(key, str) else key[0]).rpartition("\x04")[2]
        there, here = PLACEHOLDER.findall(source), PLACEHOLDER.findall(words)
        gaps = [[gap for gap in found if gap.startswith("%%")] for found in (there, here)]  # filled in this order
        if Counter(there) != Counter(here) or gaps[0] != gaps[1]:
            different.append((source, words))
    assert different == []


class SpokenText(HTMLParser):
    """Collects the text of a page, without keys, code and names of icons."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.said += [value for name, value in attributes if name in SPOKEN and value]
        icon = "material-symbols-outlined" in (dict(attributes).get("class") or "")
        self.inside.append("code" if icon else tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.inside.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.inside:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside or self.inside[-1] not in NOT_SPOKEN:
            self.said.append(data)


def bare_words(template: str) -> list[str]:
    """Return the text of a template outside of translation tags."""
    kept, skipping = [], ""
    for token in Lexer(template).tokenize():
        name = token.contents.split(None, 1)[0] if token.token_type == TokenType.BLOCK else ""
        if skipping:
            skipping = "" if name == skipping else skipping
        elif name in ("blocktranslate", "comment"):
            skipping = f"end{name}"
        elif token.contents.startswith("block body_class"):  # names for the stylesheet
            skipping = "endblock"
        elif token.token_type == TokenType.TEXT:
            kept.append(token.contents)
        else:
            kept.append(" ")
    html = "".join(kept)
    if html.lstrip().startswith("data-"):  # attributes for elements of other templates
        html = f"<div {html}>"
    reader = SpokenText()
    reader.feed(_without_void_tags(html))
    words = [word for said in reader.said for word in re.findall(r"[^\W\d_][\w-]+", said)]
    return [word for word in words if word not in NOT_TRANSLATED]


def _without_void_tags(html: str) -> str:
    """Close void elements such as <input>."""
    return re.sub(r"<((?:input|img|br|hr|meta|link|use|path|rect|circle)\b[^>]*?)/?>", r"<\1/>", html)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT)))
def test_template_has_no_untranslated_text(path: Path) -> None:
    assert bare_words(path.read_text()) == []


def test_untranslated_template_text_is_detected() -> None:
    assert bare_words('<p>{% translate "Hello" %} {{ name }}</p><br><code>claw</code> {% comment %}no{% endcomment %}') == []
    assert bare_words("<p>Hello {{ name }}</p>") == ["Hello"]
    assert bare_words('<input title="Your {{ thing }}"> <kbd>Esc</kbd>') == ["Your"]


def sentences(script: str) -> Iterator[str]:
    """Return strings of a script that look like sentences: two words or more, and not a selector."""
    code = re.sub(r"/\*.*?\*/|(?:^|\s)//[^\n]*", "", script, flags=re.DOTALL)
    for literal in re.findall(r'"([^"\n]*)"|`([^`]*)`', code):
        text = " ".join(re.sub(r"\$\{[^}]*\}", " ", "".join(literal)).split())
        if re.search(r"\b[A-Za-z]{2,} [A-Za-z]{2,}\b", text) and not re.search(r"^[.#:]|[=\[\]>{}]", text):
            yield text


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_has_no_hardcoded_text(path: Path) -> None:
    assert [text for text in sentences(path.read_text()) if text not in NO_SENTENCES] == []


def test_hardcoded_script_text_is_detected() -> None:
    script = 'put(at("note"), `Sent to ${name}`); at(".menu .item"); // "not this one"\nsay("It is late")'
    assert list(sentences(script)) == ["Sent to", "It is late"]


def test_every_text_used_by_scripts_is_in_template() -> None:
    given = {name for path in TEMPLATES for name in re.findall(r"\bdata-([a-z0-9-]+)=", path.read_text())}
    asked = {word for path in SCRIPTS for word in re.findall(r"(?<!/)\btexts\.([a-z]\w*)\b(?!\()", path.read_text())}
    named = {word: re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", word) for word in asked}
    assert asked
    assert [word for word, attribute in sorted(named.items()) if attribute not in given] == []
