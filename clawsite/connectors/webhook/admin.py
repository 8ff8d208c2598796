"""Webhooks for operators. All changes go through the service; tokens are shown once."""

from collections.abc import Iterable
from typing import Any, cast

import orjson
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from clawsite.accounts.models import User
from clawsite.connectors.webhook import admin_log, inbound, service  # noqa: F401
from clawsite.connectors.webhook.admin_forms import TestDeliveryForm, WebhookForm, sample_delivery
from clawsite.connectors.webhook.delivery_log import IncomingDelivery
from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.connectors.webhook.presets import PRESETS
from clawsite.connectors.webhook.requests import WebhookRunRequest
from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.base import ClawAdmin, PageLink, RelatedRows
from clawsite.infra.admin.display import link_column
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import ClawError, Conflict

CURL_EXAMPLE = """curl -X POST {address} -H 'Authorization: Bearer {secret}' -H 'Content-Type: application/json' -d '{body}'"""
TEST_ADDRESS = "admin"  # the sender address of test deliveries


def _editor(request: HttpRequest) -> User:
    return cast(User, request.user)  # admin pages require sign-in


def _preview_enable(request: HttpRequest, hook: Hook) -> ActionPreview:
    return (
        ActionPreview(_("Already enabled"), acts=False)
        if hook.enabled
        else ActionPreview(_("Will accept authenticated deliveries"))
    )


def _preview_disable(request: HttpRequest, hook: Hook) -> ActionPreview:
    return ActionPreview(_("Will reject all deliveries")) if hook.enabled else ActionPreview(_("Already disabled"), acts=False)


@admin.register(Hook)
class WebhookAdmin(ClawAdmin):
    when_empty = gettext_lazy(
        "A webhook lets another program send content to an agent. Add and enable one, then have the program send requests to its "
        "address with its token."
    )
    form = WebhookForm
    audited_as = ""  # the service records changes
    list_display = [
        "slug",
        "name",
        "enabled",
        "action",
        "agent",
        link_column("owner", gettext_lazy("account")),
        "yes",
        "proof",
        "updated_at",
    ]
    list_filter = ["enabled", "action", "allow_unsafe"]
    search_fields = ["slug", "name", "agent", "owner__username"]
    list_select_related = ["owner"]
    date_hierarchy = "created_at"
    actions = ["switch_on", "switch_off"]
    fieldsets = [
        (None, {"fields": [("slug", "name"), "enabled", ("action", "agent"), "account", "agreed_at", "seen_version"]}),
        (
            gettext_lazy("Authentication"),
            {
                "fields": ["make_token", "token_made_at", ("signature", "signature_header"), "secret", "delivery_header"],
                "description": gettext_lazy("A token, a signature, or both. If both are set, both are required."),
            },
        ),
        (
            gettext_lazy("Prompt"),
            {
                "fields": [
                    "instructions",
                    "message_template",
                    "allow_unsafe",
                    "session_key_template",
                    "allow_request_session_key",
                ],
                "description": gettext_lazy(
                    "Placeholders: {{payload.issue.title}}, {{payload.items[0].name}}, {{headers.x-github-event}}, {{query.q}}, "
                    "{{path}}, {{now}}. Missing values are left empty. The general webhooks “wake” and “agent” don’t need a "
                    "template."
                ),
            },
        ),
        (gettext_lazy("Run settings"), {"fields": ["model", "thinking", "timeout_seconds"]}),
        (gettext_lazy("Result and log"), {"fields": [("deliver", "wake_mode"), "keep_bodies"]}),
    ]
    readonly_fields = ["token_made_at", "agreed_at"]

    @admin.display(description=gettext_lazy("authorized"))
    def yes(self, hook: Hook) -> Any:
        """Whether the owner of the account has authorized the webhook."""
        if hook.owner.is_service:
            return "nobody", _("not needed")
        return ("given", _("yes")) if hook.agreed_at else ("waiting", _("waiting for %s") % hook.owner)

    yes.label = {"nobody": "info", "given": "success", "waiting": "danger"}  # type: ignore[attr-defined]  # unfold's

    @admin.display(description=gettext_lazy("authentication"))
    def proof(self, hook: Hook) -> str:
        kinds = [_("token")] if hook.token_digest else []
        return ", ".join([*kinds, _("signature")] if hook.signature else kinds) or "–"

    def related_links(self, row: Hook) -> Iterable[RelatedRows | PageLink]:
        yield PageLink(_("Try it"), "admin:connectors_hook_try", row.pk)
        yield RelatedRows(_("Deliveries"), HookDelivery, {"hook": row.pk})

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup == "preset" or super().lookup_allowed(lookup, value, request)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        preset = PRESETS.get(request.GET.get("preset", ""))
        return dict(preset.fields) if preset else {}

    def get_fieldsets(self, request: HttpRequest, obj: Hook | None = None) -> list[tuple[Any, Any]]:
        """Offer the presets above the form of a new webhook."""
        first, *others = super().get_fieldsets(request, obj)
        if obj is not None:
            return [first, *others]
        links = ((f"?preset={name}", preset.title) for name, preset in PRESETS.items())
        offered = format_html_join(" · ", '<a class="text-link" href="{}">{}</a>', links)
        described = {**first[1], "description": format_html("{} {}", _("Start from:"), offered)}
        return [(first[0], described), *others]

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except Conflict:  # changed between validation and save; validating again shows the conflict
            return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Hook, form: Any, change: bool) -> None:
        given = form.cleaned_data
        request.issued_secret = service.save_webhook(  # type: ignore[attr-defined]  # for the one response that shows it
            obj,
            by=_editor(request),
            seen=given["seen_version"],
            secret=given["secret"],
            makes_token=given["make_token"],
        )
        if not obj.is_agreed:
            told = _("Deliveries are rejected until %s authorizes the webhook on their account page, under “Webhooks”.") % obj.owner
            self.message_user(request, told, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: Hook) -> None:
        service.delete_webhook(obj, by=_editor(request))

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for hook in queryset:
            service.delete_webhook(hook, by=_editor(request))

    def response_add(self, request: HttpRequest, obj: Hook, post_url_continue: str | None = None) -> HttpResponse:
        return self._render_token(request, obj) or super().response_add(request, obj, post_url_continue)

    def response_change(self, request: HttpRequest, obj: Hook) -> HttpResponse:
        return self._render_token(request, obj) or super().response_change(request, obj)

    def _render_token(self, request: HttpRequest, hook: Hook) -> HttpResponse | None:
        """Show the token in this response, not as a message, because messages are stored in a cookie."""
        secret = getattr(request, "issued_secret", "")
        if not secret:
            return None
        context = {**self.admin_site.each_context(request), "title": _("Webhook token"), "hook": hook, "secret": secret}
        body = orjson.dumps(orjson.loads(sample_delivery(hook)["body"])).decode()
        context["example"] = CURL_EXAMPLE.format(address=request.build_absolute_uri(str(hook)), secret=secret, body=body)
        return TemplateResponse(request, "admin/connectors/hook/token_issued.html", context, headers={"Cache-Control": "no-store"})

    @with_confirmation(
        label=gettext_lazy("Enable"),
        warning=gettext_lazy("Deliveries will start runs."),
        permission="change",
        preview=_preview_enable,
    )
    @transaction.atomic
    def switch_on(self, request: HttpRequest, chosen: list[Hook]) -> str:
        return self._set_enabled(request, chosen, enabled=True)

    @with_confirmation(
        label=gettext_lazy("Disable"),
        warning=gettext_lazy(
            "Deliveries will be rejected as if the webhook didn’t exist. Runs that have already started continue."
        ),
        permission="change",
        preview=_preview_disable,
    )
    @transaction.atomic
    def switch_off(self, request: HttpRequest, chosen: list[Hook]) -> str:
        return self._set_enabled(request, chosen, enabled=False)

    def _set_enabled(self, request: HttpRequest, chosen: list[Hook], *, enabled: bool) -> str:
        for hook in chosen:
            service.set_enabled(hook, by=_editor(request), enabled=enabled)
        return ngettext("%d webhook was changed.", "%d webhooks were changed.", len(chosen)) % len(chosen)

    def get_urls(self) -> list[URLPattern]:
        trying = path("<int:pk>/try/", self.admin_site.admin_view(self.try_view), name="connectors_hook_try")
        return [trying, *super().get_urls()]

    def try_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the prompt that a delivery would produce, and send a test delivery, except for another user's account."""
        if not self.has_change_permission(request):  # check first, so that the response does not reveal which webhooks exist
            raise PermissionDenied
        hook = Hook.objects.select_related("owner").filter(pk=pk).first()
        if hook is None:
            return redirect(reverse("admin:connectors_hook_changelist"))
        form = TestDeliveryForm(request.POST) if request.method == "POST" else TestDeliveryForm(initial=sample_delivery(hook))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Try %s") % hook,
            "hook": hook,
            "may_deliver": hook.owner.is_service or hook.owner == request.user,
            "form": form,
            "opts": self.opts,
        }
        if request.method == "POST" and form.is_valid():
            came = IncomingDelivery(hook.slug, TEST_ADDRESS, form.cleaned_data["body"], form.cleaned_data["headers"])
            try:
                wish = inbound.build_request(hook, came)
                context |= {"told": wish.prompt if isinstance(wish, WebhookRunRequest) else wish.text, "wish": wish}
                if "deliver" in request.POST and context["may_deliver"]:
                    return self._deliver_test(request, hook, came, wish)
            except ClawError as refused:
                context["refused"] = refused.message
        return TemplateResponse(request, "admin/connectors/hook/try_delivery.html", context)

    @transaction.atomic
    def _deliver_test(self, request: HttpRequest, hook: Hook, came: IncomingDelivery, wish: Any) -> HttpResponse:
        taken = inbound.accept_delivery(hook, came, None, wish)
        audit_log.record(
            "admin.acted", actor=acting.actor_for_user(request.user), subject=("hook", hook.pk), change="tried", run=taken.run or ""
        )
        self.message_user(request, _("Delivered. See the first entry in the log."), messages.SUCCESS)
        return redirect(reverse("admin:connectors_hookdelivery_changelist"))
