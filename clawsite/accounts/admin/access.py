"""Admin pages for tokens, browsers, failed sign-ins and the admin log. Secrets, digests and cookies are never shown."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clawsite.accounts.groups import SCOPES
from clawsite.accounts.models import AccessToken, BrowserSession, FailedSignIns, FirstAdminLink, KnownAddress, User, default_expiry
from clawsite.accounts.tokens import issue_token, limit_token, revoke_token, validate_limits
from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.base import ClawAdmin, ReadOnlyAdmin
from clawsite.infra.admin.display import link_column
from clawsite.infra.errors import InvalidRequest

if TYPE_CHECKING:  # unfold has no type hints, and Django's classes aren't generic at runtime
    from django.contrib.admin import RelatedFieldListFilter as OneOfMany
    from django.forms import CheckboxSelectMultiple, Textarea, TextInput
    from django.forms import SplitDateTimeWidget as DateTimeWidget

    NewTokenModelForm = forms.ModelForm[AccessToken]
else:
    from unfold.contrib.filters.admin import AutocompleteSelectFilter as OneOfMany
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as CheckboxSelectMultiple
    from unfold.widgets import UnfoldAdminSplitDateTimeWidget as DateTimeWidget
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput

    NewTokenModelForm = forms.ModelForm


class ToolLimitsForm(NewTokenModelForm):
    allow_tools = forms.CharField(
        label=_("Only these tools"),
        required=False,
        widget=Textarea(attrs={"rows": 3}),
        help_text=_(
            "One per line: a tool, `group:fs`, `sessions_*`. Runs started with the token can use only these; leave blank for "
            "no limit."
        ),
    )
    deny_tools = forms.CharField(
        label=_("Exclude these tools"),
        required=False,
        widget=Textarea(attrs={"rows": 3}),
        help_text=_("One per line: `exec`, `group:runtime`. Overrides anything that is allowed."),
    )

    class Meta:
        model = AccessToken
        fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial.update({f"{name}_tools": "\n".join(entries) for name, entries in self.instance.tools.items()})

    @property
    def limits(self) -> dict[str, list[str]]:
        return {name: self.cleaned_data[name].replace(",", " ").split() for name in ("allow_tools", "deny_tools")}

    def clean(self) -> dict[str, Any] | None:
        try:
            validate_limits(**self.limits)
        except InvalidRequest as error:
            raise forms.ValidationError(error.message) from error
        return super().clean()


class AdminTokenForm(ToolLimitsForm):
    name = forms.CharField(label=_("Name"), max_length=100, widget=TextInput, help_text=_("The program that will use the token"))
    scopes = forms.MultipleChoiceField(
        label=_("Token scopes"), choices=[(scope, scope) for scope in sorted(SCOPES)], widget=CheckboxSelectMultiple
    )
    expires_at = forms.SplitDateTimeField(label=_("Expires"), initial=default_expiry, widget=DateTimeWidget)

    class Meta:
        model = AccessToken
        fields = ("name", "scopes", "expires_at")  # the limits are form fields


def _preview_revocation(request: HttpRequest, token: AccessToken) -> ActionPreview:
    if token.revoked_at:
        return ActionPreview(_("Already revoked"), acts=False)
    if token.expires_at <= timezone.now():
        return ActionPreview(_("Expired; will also be marked as revoked"))
    return ActionPreview(_("Stops working immediately; %(user)s’s programs that use it are disconnected") % {"user": token.user})


LIMIT_FIELDS = ("allow_tools", "deny_tools")


@admin.register(AccessToken)
class AccessTokenAdmin(ClawAdmin):
    """Users can only create tokens for themselves: a token for someone else would allow acting in their name."""

    audited_as = ""  # audited by tokens
    list_display = (
        "name",
        link_column("user", _("user")),
        "prefix",
        "state",
        "scope_list",
        "made_with",
        "expires_at",
        "last_used_at",
    )
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), "expires_at", ("user", OneOfMany))
    list_filter_submit = True
    search_fields = ("name", "prefix", "user__username")
    list_select_related = ("user", "made_with")
    date_hierarchy = "created_at"
    fields = ("name", "user", "prefix", "scopes", "made_with", "created_at", "expires_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    @admin.display(description=_("state"))
    def state(self, token: AccessToken) -> Any:
        if token.revoked_at:
            return "revoked", _("revoked")
        if token.expires_at <= timezone.now():
            return "expired", _("expired")
        return ("ended", _("revoked with its parent token")) if token.has_ended else ("valid", _("valid"))

    state.label = {"valid": "success", "expired": "warning", "ended": "warning", "revoked": "danger"}  # type: ignore[attr-defined]  # unfold's

    @admin.display(description=_("scopes"))
    def scope_list(self, token: AccessToken) -> str:
        return ", ".join(scope.removeprefix("operator.") for scope in token.scopes) or "–"

    def get_form(self, request: HttpRequest, obj: AccessToken | None = None, change: bool = False, **kwargs: Any) -> Any:
        return AdminTokenForm if obj is None else ToolLimitsForm

    def get_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        return (*(AdminTokenForm.Meta.fields if obj is None else self.fields), *LIMIT_FIELDS)

    def get_readonly_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        return () if obj is None else self.fields

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.delete_accesstoken")

    def save_model(self, request: HttpRequest, obj: AccessToken, form: forms.Form, change: bool) -> None:
        if change:
            limit_token(obj, **form.limits)  # type: ignore[attr-defined]  # a ToolLimitsForm
            return
        data, user = form.cleaned_data, User.objects.get(username=request.user.get_username())
        limits = form.limits  # type: ignore[attr-defined]  # as above
        token, secret = issue_token(user, data["name"], data["scopes"], data["expires_at"], **limits)
        obj.__dict__.update(token.__dict__)
        request.issued_secret = secret  # type: ignore[attr-defined]  # for response_add, which shows it once

    def response_add(self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None) -> HttpResponse:
        # Shown in this response, not as a message, because messages are stored in a cookie.
        context = {**self.admin_site.each_context(request), "title": _("Access token created"), "token": obj}
        context["secret"] = request.issued_secret  # type: ignore[attr-defined]  # as above
        return TemplateResponse(
            request, "admin/accounts/accesstoken/token_issued.html", context, headers={"Cache-Control": "no-store"}
        )

    @with_confirmation(
        label=_("Revoke access tokens"),
        warning=_("A revoked token can’t be used again; its owner can create a new one."),
        permission="revoke",
        preview=_preview_revocation,
    )
    def revoke(self, request: HttpRequest, rows: list[AccessToken]) -> str:
        for token in rows:
            revoke_token(token)
            self.log_change(request, token, [{"changed": {"fields": ["revoked_at"]}}])
        return ngettext("%d access token was revoked.", "%d access tokens were revoked.", len(rows)) % len(rows)


class DeleteOnlyAdmin(ClawAdmin):
    """For rows that only services write: they can be deleted, but not added or changed."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(BrowserSession)
class BrowserSessionAdmin(ReadOnlyAdmin):
    """Hides the session key, which is the cookie."""

    list_display = ("id", link_column("user", _("user")), "address", "user_agent", "signed_in_at", "last_seen_at")
    fields = ("user", "address", "user_agent", "signed_in_at", "last_seen_at")
    list_filter = (("user", OneOfMany),)
    list_filter_submit = True
    search_fields = ("user__username", "address")
    list_select_related = ("user",)
    date_hierarchy = "last_seen_at"
    ordering = ("-last_seen_at",)


@admin.register(FailedSignIns)
class FailedSignInsAdmin(DeleteOnlyAdmin):
    """Deleting a row ends the waiting time of that address or account."""

    list_display = ("subject", "failures", "last_failed_at")
    search_fields = ("subject",)
    date_hierarchy = "last_failed_at"
    ordering = ("-last_failed_at",)


@admin.register(KnownAddress)
class KnownAddressAdmin(DeleteOnlyAdmin):
    list_display = ("account", "address", "last_seen_at")
    search_fields = ("account", "address")
    date_hierarchy = "last_seen_at"
    ordering = ("-last_seen_at",)


@admin.register(FirstAdminLink)
class FirstAdminLinkAdmin(ReadOnlyAdmin):
    list_display = ("id", "expires_at", "used_at")
    fields = ("expires_at", "used_at")  # without the digest


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    """Changes made in the admin, and by whom."""

    list_display = ("action_time", link_column("user", _("user")), "content_type", "object_repr", "action_flag", "what")
    list_filter = ("action_flag", "content_type")
    search_fields = ("object_repr", "user__username")
    list_select_related = ("user", "content_type")
    date_hierarchy = "action_time"
    readonly_fields = ("what",)

    @admin.display(description=_("change"))
    def what(self, entry: LogEntry) -> str:
        return entry.get_change_message()
