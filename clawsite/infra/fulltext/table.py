"""A table of words for full-text search: FTS5 on SQLite, a tsvector with GIN on PostgreSQL, fed with the same words.

Each row of another table is a set of words (search_words.py). Neither database ever tokenises text of a person: FTS5 splits at
our spaces only, PostgreSQL gets the words as an array. Positions are not kept; what must stand together is checked in the text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from clawsite.infra import sql

# A private character: no letter, so no text has a word with it. Words that begin so say whose a row is.
PRIVATE_USE_PREFIX = "\ue000"


@dataclass(frozen=True, slots=True)
class WordTable:
    """`name` has the words of the rows of table `of`; `key` is the column for their ids on PostgreSQL."""

    name: str
    of: str
    key: str

    @property
    def id(self) -> str:
        return f"{self.name}.{self.key if connection.vendor == 'postgresql' else 'rowid'}"

    @property
    def matches(self) -> str:
        """The condition for the rows that a parameter made of `quoted` words finds."""
        return f"{self.name}.words @@ %s::tsquery" if connection.vendor == "postgresql" else f"{self.name} MATCH %s"

    def add(self, rows: Sequence[tuple[int, Iterable[str]]]) -> None:
        """The words of rows (id, words), in the transaction that stores them."""
        if not rows:
            return
        is_postgres = connection.vendor == "postgresql"
        values = [value for row_id, words in rows for value in (row_id, to_db_value(words))]
        marks = ", ".join(["(%s, array_to_tsvector(%s::text[]))" if is_postgres else "(%s, %s)"] * len(rows))
        sql.execute(f"INSERT INTO {self.name} ({self.key if is_postgres else 'rowid'}, words) VALUES {marks}", values)

    def install_trigger(self) -> None:
        """After every migration: what is deleted is forgotten. A migration that rebuilds SQLite's table loses its triggers."""
        if connection.vendor == "sqlite":
            forget = f"DELETE FROM {self.name} WHERE rowid = old.id"
            sql.execute(f"CREATE TRIGGER IF NOT EXISTS {self.name}_forget AFTER DELETE ON {self.of} BEGIN {forget}; END")


def to_db_value(words: Iterable[str]) -> Any:
    """A set of words as a value for an INSERT."""
    return list(words) if connection.vendor == "postgresql" else " ".join(words)


def quote_word(word: str, is_prefix: bool = False) -> str:
    """A word has letters and digits only; that it cannot end its quotes is made sure of all the same."""
    if connection.vendor == "postgresql":
        inside = word.replace("\\", "\\\\").replace("'", "''")
        return f"'{inside}'" + (":*" if is_prefix else "")
    inside = word.replace('"', '""')
    return f'"{inside}"' + ("*" if is_prefix else "")


def match_all(parts: Iterable[str]) -> str:
    return (" & " if connection.vendor == "postgresql" else " AND ").join(parts)


def match_any(parts: Iterable[str]) -> str:
    return f"({(' | ' if connection.vendor == 'postgresql' else ' OR ').join(parts)})"
