"""The search tokenizer: which words find a text, and where."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clawsite.infra.fulltext import tokenizer
from clawsite.infra.fulltext.tokenizer import (
    SearchTerm,
    contains_terms,
    find_matches,
    fold,
    make_snippet,
    parse_query,
    tokenize,
    tokenize_title,
)

# Letters of many scripts, combining characters, characters that normalize to several, and all others.
ODD = "aZéÉßİœ９Ｋｶﾞがか゛東京都한글ไทยहिन्दी½…㈱·_-'\"*() \n\u0301\u3099\u1100\u1161🦞"
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters()))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World_wide web2", {"hello", "world", "wide", "web2"}),
        ("Crème BRÛLÉE straße", {"creme", "brulee", "strasse"}),
        ("ＡＢＣ１２３", {"abc123"}),
        ("東京都", {"東京", "京都", "都"}),
        ("水", {"水"}),
        ("GPT-5で東京へ", {"gpt", "5", "で東", "東京", "京へ", "へ"}),
        ("한국어 글", {"한국", "국어", "어", "글"}),
        ("ガラス ｶﾞﾗｽ", {"ガラ", "ラス", "ス"}),
        ("हिन्दी में", {"हिन्दी", "में"}),
        ("ไทย", {"ไท", "ทย", "ย"}),
        ("*** --- 🦞 …", set()),
        ("x" * 100, {"x" * 64}),
    ],
)
def test_text_is_tokenized(text, found):
    assert tokenize(text) == found


def test_last_query_term_matches_by_prefix():
    assert parse_query("Big lob") == [SearchTerm("big"), SearchTerm("lob", is_prefix=True)]
    assert parse_query("Big lob ") == [SearchTerm("big"), SearchTerm("lob")]
    assert parse_query("東京") == [SearchTerm("東京", is_run=True)]
    assert parse_query('" OR * -') == [SearchTerm("or")]


@pytest.mark.parametrize(("query", "is_there"), [("東京都", True), ("京都", True), ("都東京", False), ("東京 京都", True)])
def test_cjk_query_characters_must_be_adjacent(query, is_there):
    assert contains_terms("東京都と都東", parse_query(query)) is is_there


def found_by_index(text, query):
    """Return the result of an index that only knows words, and of the text itself."""
    known = tokenize(text)
    asked = [part for term in parse_query(query) for part in term.indexed]
    return bool(asked) and all(
        any(word.startswith(part) for word in known) if is_prefix else part in known for part, is_prefix in asked
    )


@given(TEXTS)
def test_folding_is_idempotent(text):
    assert fold(fold(text)) == fold(text)


@given(TEXTS)
@example("e\u0301\u0345x ᾳ")
def test_tokens_contain_no_punctuation(text):
    assert not any(sign in word for word in tokenize(text) for sign in " \n\"'*()_%\\&|:!<>\ue000")


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_and_unicode_tokenization_agree(text):
    assert tokenize(f"{text} é") == tokenize(text) | {"e"}


@given(TEXTS, st.data())
def test_any_token_sequence_of_text_finds_it(text, data):
    start = data.draw(st.integers(0, len(text)))
    tokens = [match[0] for match in tokenizer._TOKEN.finditer(fold(text))]
    piece = " ".join(tokens[start : start + 3])
    if piece:
        assert found_by_index(text, piece)
        assert contains_terms(text, parse_query(piece))


@given(TEXTS)
def test_matches_are_found_for_every_term(text):
    for term in parse_query(text):
        places = list(find_matches(text, [term]))
        assert places, term
        assert all(0 <= start < end <= len(text) for start, end in places)


@given(TEXTS, TEXTS)
def test_snippet_has_no_newlines_and_ordered_matches(text, query):
    made = make_snippet(text, parse_query(query))
    units = made.text.encode("utf-16-le", "surrogatepass")
    ends = [0, *(place for match in made.matches for place in match), len(units) // 2]
    assert ends == sorted(ends)
    assert "\n" not in made.text
    assert len(made.text) <= 162


def test_snippet_shows_context_around_match():
    text = "word " * 50 + "🦞 the Lobster, a lobster\nand more " + "word " * 50
    made = make_snippet(text, parse_query("lobst"))
    units = made.text.encode("utf-16-le")
    assert made.text.startswith("…word")
    assert made.text.endswith("…")
    assert [units[2 * a : 2 * b].decode("utf-16-le") for a, b in made.matches] == ["Lobster", "lobster"]


def test_title_tokens_are_separated_by_spaces():
    assert tokenize_title("Über uns", "work") == " uber uns work "
    assert tokenize_title("") == ""
