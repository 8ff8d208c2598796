"""A word table for full-text search: FTS5 on SQLite, a tsvector with a GIN index on PostgreSQL, filled with the same words.

Each row of another table is indexed as a set of words (`clawsite.infra.fulltext.tokenizer`). Neither database tokenizes user
text: FTS5 only splits at our spaces, and PostgreSQL gets the words as an array. Positions are not stored; adjacency is checked
in the text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from clawsite.infra import sql

# A private-use character: not a letter, so the tokenizer never produces it. It marks words that name the owner of a row.
PRIVATE_USE_PREFIX = "\ue000"


@dataclass(frozen=True, slots=True)
class WordTable:
    """Table `name` holds the words of the rows of table `of`; `key` is the column for their IDs on PostgreSQL."""

    name: str
    of: str
    key: str

    @property
    def id(self) -> str:
        return f"{self.name}.{self.key if connection.vendor == 'postgresql' else 'rowid'}"

    @property
    def matches(self) -> str:
        """SQL condition for a match. Its parameter is built with `quote_word`, `match_all` and `match_any`."""
        return f"{self.name}.words @@ %s::tsquery" if connection.vendor == "postgresql" else f"{self.name} MATCH %s"

    def add(self, rows: Sequence[tuple[int, Iterable[str]]]) -> None:
        """Index rows (id, words) in the transaction that stores them."""
        if not rows:
            return
        is_postgres = connection.vendor == "postgresql"
        values = [value for row_id, words in rows for value in (row_id, to_db_value(words))]
        marks = ", ".join(["(%s, array_to_tsvector(%s::text[]))" if is_postgres else "(%s, %s)"] * len(rows))
        sql.execute(f"INSERT INTO {self.name} ({self.key if is_postgres else 'rowid'}, words) VALUES {marks}", values)

    def install_trigger(self) -> None:
        """Create the trigger that removes the words of deleted rows, after every migration: on SQLite, rebuilding a table drops
        its triggers."""
        if connection.vendor == "sqlite":
            forget = f"DELETE FROM {self.name} WHERE rowid = old.id"
            sql.execute(f"CREATE TRIGGER IF NOT EXISTS {self.name}_forget AFTER DELETE ON {self.of} BEGIN {forget}; END")


def to_db_value(words: Iterable[str]) -> Any:
    """Convert words to a value for an INSERT."""
    return list(words) if sql.vendor() == "postgresql" else " ".join(words)


def quote_word(word: str, is_prefix: bool = False) -> str:
    """Quote a word for a query. Words contain only letters and digits, but quotes are escaped anyway."""
    if connection.vendor == "postgresql":
        inside = word.replace("\\", "\\\\").replace("'", "''")
        return f"'{inside}'" + (":*" if is_prefix else "")
    inside = word.replace('"', '""')
    return f'"{inside}"' + ("*" if is_prefix else "")


def match_all(parts: Iterable[str]) -> str:
    return (" & " if connection.vendor == "postgresql" else " AND ").join(parts)


def match_any(parts: Iterable[str]) -> str:
    return f"({(' | ' if connection.vendor == 'postgresql' else ' OR ').join(parts)})"
