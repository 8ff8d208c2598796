"""A lane caps how many runs of one kind go on at once in the whole installation."""

from django.db import models


class Lane(models.Model):
    name = models.CharField(max_length=16, primary_key=True)
    max_running = models.PositiveIntegerField()
    warn_after_seconds = models.FloatField(default=10, help_text="A run that waits longer is reported")

    def __str__(self) -> str:
        return self.name
