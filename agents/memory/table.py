"""The full-text table of notes: created by a migration, filled and queried by `agents.memory.index`."""

from typing import Any

from clawsite.infra.fulltext.table import PRIVATE_USE_PREFIX, WordTable

TABLE = WordTable("agents_memory_words", of="agents_memorychunk", key="chunk_id")
WORKSPACE_TERM_PREFIX = f"{PRIVATE_USE_PREFIX}w"  # prefix of the index term that names a chunk's workspace


def install_trigger(**_: Any) -> None:
    """Install the trigger after every migration."""
    TABLE.install_trigger()
