"""The tables of webhooks. Tables keep the names they had when the gateway owned them.

A webhook is an address under /hooks/ that other programs can call. Only connectors.webhook.service and consent change webhooks.
The paths `wake` and `agent` are the general webhooks; their callers choose the prompt.
"""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from sessions_app.models import Run

WAKE, AGENT = "wake", "agent"
GENERAL_SLUGS = (WAKE, AGENT)


class Hook(models.Model):
    class Action(models.TextChoices):
        AGENT = AGENT, _("Start a separate run")
        WAKE = WAKE, _("Post to the main chat")

    class Signature(models.TextChoices):
        NONE = "", _("none")
        PLAIN = "plain", _("Body only, as GitHub sends it: sha256=…")
        TIMED = "timed", _("Timestamp and body, as Stripe sends it: t=…,v1=…")

    class WakeMode(models.TextChoices):
        NOW = "now", _("Immediately")
        NEXT = "next-heartbeat", _("After the next run in the chat")

    slug = models.CharField(
        _("path"),
        max_length=64,
        unique=True,
        help_text=_("The part after /hooks/: a-z, 0-9, - and _. “wake” and “agent” are the general webhooks."),
    )
    name = models.CharField(_("name"), max_length=80, help_text=_("Name shown to users and the agent"))
    enabled = models.BooleanField(_("enabled"), default=False, help_text=_("When off, all deliveries are rejected."))
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="+",
        verbose_name=_("account"),
        help_text=_("The account whose chats it writes to. Leave blank for an account used only by webhooks."),
    )
    agreed_at = models.DateTimeField(
        _("authorized"),
        null=True,
        blank=True,
        editable=False,
        help_text=_("When the account’s owner authorized the webhook. Until then, all deliveries are rejected."),
    )
    agent = models.CharField(_("agent"), max_length=64, default="main")
    action = models.CharField(_("action"), max_length=8, choices=Action.choices, default=Action.AGENT)

    token_digest = models.CharField(_("token digest"), max_length=64, blank=True, editable=False)
    token_made_at = models.DateTimeField(_("token created"), null=True, blank=True, editable=False)
    signature = models.CharField(_("signature"), max_length=8, choices=Signature.choices, blank=True, default=Signature.NONE)
    signature_header = models.CharField(_("signature header"), max_length=80, blank=True, default="X-Hub-Signature-256")
    sealed_secret = models.TextField(_("signing secret"), blank=True, editable=False)
    delivery_header = models.CharField(
        _("delivery ID header"), max_length=80, blank=True, help_text=_("Example: X-GitHub-Delivery")
    )

    instructions = models.TextField(
        _("instructions"),
        blank=True,
        help_text=_("Your instructions to the agent, placed before the delivery. Nothing from the sender is added here."),
    )
    message_template = models.TextField(
        _("message template"), blank=True, help_text=_("Example: {{payload.issue.title}}. Leave blank for the whole body.")
    )
    session_key_template = models.CharField(
        _("session key"),
        max_length=200,
        blank=True,
        help_text=_("Deliveries with the same value share one chat. Leave blank for a new chat each time."),
    )
    allow_request_session_key = models.BooleanField(
        _("callers can choose the chat"),
        default=False,
        help_text=_("Only for the general webhook “agent”, and only among webhook chats"),
    )
    model = models.CharField(_("model"), max_length=200, blank=True)
    thinking = models.CharField(_("thinking level"), max_length=16, blank=True)
    timeout_seconds = models.PositiveIntegerField(
        _("timeout (s)"), null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(86_400)]
    )
    deliver = models.BooleanField(_("post the result"), default=True, help_text=_("To the account’s main chat"))
    wake_mode = models.CharField(_("when to post the result"), max_length=16, choices=WakeMode.choices, default=WakeMode.NOW)
    allow_unsafe = models.BooleanField(
        _("trust this sender"),
        default=False,
        help_text=_("The payload is given to the agent as if you had written it. Use only for senders you trust completely."),
    )
    keep_bodies = models.BooleanField(_("keep bodies in the log"), default=False, help_text=_("The first 16 KB of each"))

    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("updated"), default=timezone.now, editable=False)

    class Meta:
        db_table = "gateway_hook"
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ["slug"]

    def __str__(self) -> str:
        return f"/hooks/{self.slug}"

    @property
    def is_agreed(self) -> bool:
        """Whether it may act for its account. A service account needs no consent."""
        return self.owner.is_service or self.agreed_at is not None

    @property
    def seen(self) -> str:
        """The version that an editor has opened, to detect later changes."""
        return self.updated_at.isoformat()

    @property
    def is_guarded(self) -> bool:
        """Whether callers must authenticate. Without a token or a signing secret, all deliveries are rejected."""
        return bool(self.token_digest or (self.signature and self.sealed_secret))


class HookDelivery(models.Model):
    """A delivery and its outcome. The row of an accepted delivery also prevents a duplicate from acting again."""

    class Outcome(models.TextChoices):
        ACCEPTED = "accepted", pgettext_lazy("outcome of a delivery", "accepted")
        DUPLICATE = "duplicate", _("duplicate")
        UNAUTHORIZED = "unauthorized", _("not authenticated")
        REFUSED = "refused", _("rejected")

    hook = models.ForeignKey(
        Hook, null=True, blank=True, on_delete=models.SET_NULL, related_name="deliveries", verbose_name=_("webhook")
    )
    path = models.CharField(_("path"), max_length=64)
    received_at = models.DateTimeField(_("received"))
    address = models.CharField(_("address"), max_length=64)
    outcome = models.CharField(_("outcome"), max_length=16, choices=Outcome.choices)
    status_code = models.PositiveSmallIntegerField(_("status"))
    error = models.CharField(_("rejection reason"), max_length=500, blank=True)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("run"))

    size = models.PositiveIntegerField(_("bytes"), default=0)
    body_digest = models.CharField(_("body digest"), max_length=64, blank=True)
    body = models.TextField(_("body"), blank=True, help_text=_("Stored only if the webhook keeps bodies, and truncated"))
    # Only set on accepted deliveries, so that a rejected one can be sent again. Otherwise null, because nulls are never equal.
    delivery_id = models.CharField(_("delivery ID"), max_length=200, null=True, blank=True)  # noqa: DJ001  # see above
    signature_digest = models.CharField(_("signed content digest"), max_length=64, null=True, blank=True)  # noqa: DJ001  # see above

    name = models.CharField(_("name"), max_length=80, blank=True, help_text=_("Name of the result"))
    wake_mode = models.CharField(_("when to post the result"), max_length=16, blank=True)
    report_due = models.BooleanField(_("result not posted yet"), default=False)

    class Meta:
        db_table = "gateway_hookdelivery"
        verbose_name = _("webhook delivery")
        verbose_name_plural = _("webhook deliveries")
        constraints = [
            UniqueConstraint(fields=["hook", "delivery_id"], name="a_delivery_acts_once"),
            UniqueConstraint(fields=["hook", "signature_digest"], name="a_signature_acts_once"),
        ]
        indexes = [
            models.Index(fields=["received_at"], name="hook_delivery_by_time"),
            models.Index(fields=["address", "received_at"], condition=Q(outcome="unauthorized"), name="hook_delivery_unproven"),
            models.Index(fields=["id"], condition=Q(report_due=True), name="hook_delivery_untold"),
        ]

    def __str__(self) -> str:
        return f"/hooks/{self.path} · {self.pk}"


class SpentSignature(models.Model):
    """A signature without a timestamp that was accepted. It never expires, so it is kept until the signing secret changes.

    The delivery log is deleted after a while; these rows are not.
    """

    hook = models.ForeignKey(Hook, on_delete=models.CASCADE, related_name="+", db_index=False)
    digest = models.CharField(max_length=64)

    class Meta:
        db_table = "gateway_spentsignature"
        verbose_name = _("used signature")
        verbose_name_plural = _("used signatures")
        default_permissions = ()  # not shown in the admin
        constraints = [UniqueConstraint(fields=["hook", "digest"], name="a_signature_is_spent_once")]

    def __str__(self) -> str:
        return self.digest
