"""Splitting streamed markdown into blocks and rendering formulas: static/js/chat/markdown, run in the browser."""

import pytest
from playwright.sync_api import Page

CUT = """async ([text, step]) => {
  const { BlockReader } = await import("/static/js/chat/markdown/block_reader.js");
  const reader = new BlockReader();
  const closed = [];
  for (let at = 0; at < text.length; at += step) closed.push(...reader.feed(text.slice(at, at + step)));
  return [closed, reader.open, reader.finish()];
}"""

CASES = {
    "paragraphs end at a blank line": ("one\ntwo\n\nthree", ["one\ntwo\n"], ["three\n"]),
    "a fence ends at its counterpart": ("```py\na = 1\n\nb = 2\n```\nafter", ["```py\na = 1\n\nb = 2\n```\n"], ["after\n"]),
    "a shorter fence inside does not end it": ("````\n```\nx\n```\n````\n", ["````\n```\nx\n```\n````\n"], []),
    "a fence ends the paragraph before it": ("see:\n```\nx\n```\n", ["see:\n", "```\nx\n```\n"], []),
    "a heading is a block of its own": ("# One\ntext\n## Two\n", ["# One\n", "text\n", "## Two\n"], []),
    "a list goes on over blank lines": ("- a\n\n- b\n\n  more of b\n\nend", ["- a\n\n- b\n\n  more of b\n\n"], ["end\n"]),
    "a list may follow a paragraph at once": ("these:\n- a\n- b\n", ["these:\n"], ["- a\n- b\n"]),
    "code in an item belongs to the list": (
        "1. do\n   ```sh\n   x\n\n   y\n   ```\n2. then\n\nend",
        ["1. do\n   ```sh\n   x\n\n   y\n   ```\n2. then\n\n"],
        ["end\n"],
    ),
    "a table ends at a blank line": ("| a |\n| --- |\n| 1 |\n\nend", ["| a |\n| --- |\n| 1 |\n"], ["end\n"]),
    "a quotation ends at a blank line": ("> a\n> b\n\n> c", ["> a\n> b\n"], ["> c\n"]),
    "a formula ends at its counterpart": ("$$\nx\n$$\nend", ["$$\nx\n$$\n"], ["end\n"]),
    "blank lines make no blocks": ("\n\n\n \n", [], []),
    "Windows line ends": ("a\r\n\r\nb", ["a\n"], ["b\n"]),
}


@pytest.fixture
def reader(page: Page, site: str) -> Page:
    page.goto(f"{site}/sign-in/")
    return page


@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_block_splitting_is_independent_of_chunking(reader: Page, step: int) -> None:
    for name, (text, closed, rest) in CASES.items():
        found, _, last = reader.evaluate(CUT, [text, step])
        assert (found, last) == (closed, rest), name


OPEN = {
    "plain wor": {"kind": "text", "text": "plain wor", "info": ""},
    "## Head": {"kind": "heading", "text": "Head", "info": 2},
    "```pyth": {"kind": "code", "text": "", "info": "pyth"},
    "```py\na = 1\nb": {"kind": "code", "text": "a = 1\nb", "info": "py"},
    "- a\n- b": {"kind": "list", "text": "- a\n- b", "info": ""},
    "> so": {"kind": "quote", "text": "> so", "info": ""},
    "| a | b": {"kind": "table", "text": "| a | b", "info": ""},
}


def test_open_block_reports_its_type(reader: Page) -> None:
    for text, shown in OPEN.items():
        assert reader.evaluate(CUT, [text, 4])[1] == shown
    assert reader.evaluate(CUT, ["done\n\n", 4])[1] is None


FORMULA = """async (source) => {
  const { renderMath } = await import("/static/js/chat/markdown/math.js");
  const element = document.createElement("span");
  element.textContent = source;
  renderMath(element);
  return [element.classList.contains("source"), element.querySelector("math")?.textContent ?? element.textContent];
}"""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"$x^2 + y_1 = \frac{a}{b}$", "x2+y1=ab"),
        (r"\(\sqrt[3]{\alpha}\)", "α3"),
        (r"$$\sum_{i=1}^{n} i = \frac{n(n+1)}{2}$$", "∑i=1ni=n(n+1)2"),
        (r"$\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}$", "(1001)"),
        (r"$\mathbb{R} \ni \text{if } \left( x \right)$", "ℝ∋if (x)"),
        (r"$f'(x) \to \lim_{h \to 0} 3.14$", "f′(x)→limh→03.14"),
    ],
)
def test_formulas_are_rendered(reader: Page, source: str, text: str) -> None:
    assert reader.evaluate(FORMULA, source) == [False, text]


@pytest.mark.parametrize("source", [r"$\unheard{x}$", r"$\frac{1}{$", r"$x^{2$", "$}$", r"$\begin{evil} x \end{evil}$", "$ $"])
def test_unsupported_formula_is_left_verbatim(reader: Page, source: str) -> None:
    assert reader.evaluate(FORMULA, source) == [True, source]
