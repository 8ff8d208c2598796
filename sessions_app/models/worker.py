"""A worker process and how to tell that it is gone."""

from django.db import models


class Worker(models.Model):
    id = models.CharField(max_length=64, primary_key=True)
    host = models.CharField(max_length=200, blank=True)
    # Boot id, pid and start time name one process of one host for good: if no such process is there, it is dead.
    boot_id = models.CharField(max_length=64, blank=True)
    pid = models.PositiveIntegerField()
    process_started = models.CharField(max_length=32, blank=True)
    started_at = models.DateTimeField()
    heartbeat_at = models.FloatField(help_text="Database time, seconds since 1970")
    draining = models.BooleanField(default=False)
    version = models.CharField(max_length=32, blank=True)

    def __str__(self) -> str:
        return self.id
