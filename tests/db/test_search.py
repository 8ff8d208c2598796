"""Full-text search on the database of this run."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection, transaction

from clawsite.infra import sql
from sessions_app import search_index
from sessions_app.models import Session, SessionMember, TranscriptEntry
from sessions_app.search import search_sessions
from sessions_app.sessions import service as session_service

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def say(user, session, *texts):
    for text in texts:
        session_service.inject_message(user, session, text)


def found(user, query, **options):
    return [hit.snippet.text for hit in search_sessions(user, query, **{"limit": 20, **options})]


@pytest.fixture
def talk(user, make_session):
    session = make_session(user)
    say(user, session, "The lobster SLEEPS", "un café crème", "東京都に行く", "水", "नमस्ते दुनिया", "it's 100% a_b")
    return session


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("lobster", "The lobster SLEEPS"),
        ("sleeps LOBSTER", "The lobster SLEEPS"),
        ("lobs", "The lobster SLEEPS"),
        ("CAFE", "un café crème"),
        ("crème", "un café crème"),
        ("東京", "東京都に行く"),
        ("京都に", "東京都に行く"),
        ("く", "東京都に行く"),
        ("水", "水"),
        ("नमस्ते", "नमस्ते दुनिया"),
        ("100", "it's 100% a_b"),
        ("a_b", "it's 100% a_b"),
    ],
)
def test_search_finds_messages_in_any_script(user, talk, query, text):
    assert found(user, query) == [text]


@pytest.mark.parametrize("query", ["lobsters", "lob sleeps", "京東", "都東京", "東都", "%", "_", "-", "zebra lobster"])
def test_search_without_match_returns_nothing(user, talk, query):
    assert found(user, query) == []


SIGNS = [
    '"',
    "'",
    '" OR "1',
    "lobster' | 'x",
    "a AND",
    "NEAR(a b)",
    "words:lobster",
    "lobster*",
    "(lobster",
    "^lobster",
    "\\",
    ":*",
]


@pytest.mark.parametrize("query", [*SIGNS, "a & !b", "--", ";", "{", "a:b", "a<->b"])
def test_special_characters_in_query_are_ignored(user, talk, query):
    assert set(found(user, query)) <= {"The lobster SLEEPS", "it's 100% a_b"}


def test_search_returns_newest_first_up_to_limit(user, make_session):
    session = make_session(user)
    say(user, session, *(f"lobster {number}" for number in range(30)))
    assert found(user, "lobster", limit=3) == ["lobster 29", "lobster 28", "lobster 27"]


def test_nonadjacent_character_pairs_do_not_match(user, make_session):
    session = make_session(user)
    say(user, session, "東京都", *["京都東京"] * 50)
    assert found(user, "東京都", limit=2) == ["東京都"]


def test_search_is_limited_to_visible_sessions(user, make_user, talk, make_session):
    friend, stranger, auditor = make_user(), make_user(), make_user("Auditor")
    SessionMember.objects.create(session=talk, user=friend)
    say(stranger, make_session(stranger), "my own lobster")
    assert found(friend, "lobster") == ["The lobster SLEEPS"]
    assert found(stranger, "lobster") == ["my own lobster"]
    assert set(found(auditor, "lobster")) == {"The lobster SLEEPS", "my own lobster"}
    assert (found(auditor, "lobster", own=True), found(friend, "lobster", own=True)) == ([], ["The lobster SLEEPS"])
    assert found(stranger, "lobster", own=True) == ["my own lobster"]
    SessionMember.objects.all().delete()
    assert found(friend, "lobster") == []


def test_search_excludes_deleted_and_includes_restored_sessions(user, talk):
    session_service.delete_session(user, talk)
    assert found(user, "lobster") == []
    session_service.restore_session(user, str(talk.pk))
    assert found(user, "lobster") == ["The lobster SLEEPS"]


def test_search_excludes_messages_before_reset(user, talk):
    session_service.reset_session(user, talk)
    assert found(user, "lobster") == []


def test_title_and_label_matches_come_first(user, make_session):
    session = make_session(user)
    say(user, session, "an invoice")
    session_service.patch_session(user, session, {"title": "Invoices of März", "label": "請求書"})
    hits = search_sessions(user, "invoic", limit=9)
    assert [(hit.message_id is None, hit.snippet.text) for hit in hits] == [
        (True, "請求書 · Invoices of März"),
        (False, "an invoice"),
    ]
    assert found(user, "marz") == found(user, "求書") == ["請求書 · Invoices of März"]
    session_service.patch_session(user, session, {"title": "other"})
    assert found(user, "marz") == []


def test_permanently_deleted_messages_leave_index(user, talk):
    TranscriptEntry.objects.filter(session=talk).delete()
    Session.objects.filter(pk=talk.pk).delete()
    assert sql.fetch_row(f"SELECT count(*) FROM {search_index.TABLE_NAME}") == (0,)


def test_migration_indexes_existing_messages(user, talk):
    sql.execute(f"DELETE FROM {search_index.TABLE_NAME}")
    assert found(user, "lobster") == []
    migration = import_module("sessions_app.migrations.0006_earlier_sessions_are_known")
    with connection.schema_editor() as schema_editor:
        migration.index_messages(apps, schema_editor)
    assert found(user, "lobster") == ["The lobster SLEEPS"]


def test_very_long_message_is_found_by_its_beginning(user, make_session):
    say(user, make_session(user), "lobster " + "".join(chr(0x4E00 + number % 20_000) for number in range(400_000)))
    assert len(found(user, "lobster")) == 1


def test_search_uses_database_index(user, talk):
    condition = search_index.build_condition(search_words_terms("lobster"), owner_id=user.pk)
    match = f"{search_index.TABLE_NAME} MATCH" if connection.vendor == "sqlite" else "words @@"
    cast = "" if connection.vendor == "sqlite" else "::tsquery"
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with transaction.atomic():
        if connection.vendor == "postgresql":
            sql.execute("SET LOCAL enable_seqscan = off")
        plan = str(sql.fetch_rows(f"{explain} SELECT 1 FROM {search_index.TABLE_NAME} WHERE {match} %s{cast}", [condition]))
    assert "VIRTUAL TABLE INDEX" in plan or "sessions_app_words_gin" in plan


def search_words_terms(query):
    from clawsite.infra.fulltext.tokenizer import parse_query

    return parse_query(query)
