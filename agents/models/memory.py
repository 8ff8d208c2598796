"""The index of an agent's notes. Derived from files: deleted rows are recreated by the next search."""

from django.db import models
from django.db.models import UniqueConstraint
from django.utils.translation import gettext_lazy as _


class MemoryFile(models.Model):
    """A note as it was last read. `workspace` is the SHA-256 of the directory's real path, to keep workspaces apart."""

    workspace = models.CharField(max_length=64)
    path = models.CharField(max_length=1000)
    stamp = models.CharField(max_length=80)  # of the file; while it is unchanged, the file is not read again
    digest = models.CharField(max_length=64)  # of its content; empty if it is not text

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        default_permissions = ()  # not managed in the admin: it contains users' private notes
        constraints = [UniqueConstraint(fields=["workspace", "path"], name="one_row_per_note")]

    def __str__(self) -> str:
        return self.path


class MemoryChunk(models.Model):
    """Some lines of a note; their index terms are in the full-text table (`agents.memory.table`)."""

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
