"""The table of the words of notes: made by a migration, filled and asked by memory_index.py. Imported at every start."""

from typing import Any

from clawsite.infra.fulltext.table import PRIVATE_USE_PREFIX, WordTable

TABLE = WordTable("agents_memory_words", of="agents_memorychunk", key="chunk_id")
WORKSPACE_TERM_PREFIX = f"{PRIVATE_USE_PREFIX}w"  # begins the word that says in which workspace a piece is


def install_trigger(**_: Any) -> None:
    """After every migration."""
    TABLE.install_trigger()
