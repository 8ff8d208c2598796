"""The index of an agent's notes. Derived from files: any row may be deleted, and comes back with the next search."""

from django.db import models
from django.db.models import UniqueConstraint
from django.utils.translation import gettext_lazy as _


class MemoryFile(models.Model):
    """A note as it was last read. `workspace` is the SHA-256 of the directory's real path, so one never answers for another."""

    workspace = models.CharField(max_length=64)
    path = models.CharField(max_length=1000)
    stamp = models.CharField(max_length=80)  # of the file: while it stays the same, the file is not read again
    digest = models.CharField(max_length=64)  # of its content; empty: it was no text

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        default_permissions = ()  # nobody administers this, and it holds what people told their agents
        constraints = [UniqueConstraint(fields=["workspace", "path"], name="one_row_per_note")]

    def __str__(self) -> str:
        return self.path


class MemoryChunk(models.Model):
    """Some lines of a note; their words are in the table of agents.memory.index."""

    file = models.ForeignKey(MemoryFile, on_delete=models.CASCADE, related_name="chunks")
    start_line = models.PositiveIntegerField()
    end_line = models.PositiveIntegerField()
    text = models.TextField()

    class Meta:
        verbose_name = _("note chunk")
        verbose_name_plural = _("note chunks")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.file_id}:{self.start_line}-{self.end_line}"
