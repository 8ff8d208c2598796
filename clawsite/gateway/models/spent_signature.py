"""What was signed without a time, and has acted: such a signature never gets old, so it is known as long as its secret lives.

The log of deliveries is for people and is forgotten after a while; this is not.
"""

from django.db import models
from django.db.models import UniqueConstraint
from django.utils.translation import gettext_lazy as _

from clawsite.gateway.models.hook import Hook


class SpentSignature(models.Model):
    hook = models.ForeignKey(Hook, on_delete=models.CASCADE, related_name="+", db_index=False)
    digest = models.CharField(max_length=64)

    class Meta:
        verbose_name = _("used signature")
        verbose_name_plural = _("used signatures")
        default_permissions = ()  # people never see it
        constraints = [UniqueConstraint(fields=["hook", "digest"], name="a_signature_is_spent_once")]

    def __str__(self) -> str:
        return self.digest
