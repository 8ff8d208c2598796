"""Accounts, groups and tokens in the admin. A person who is no superuser can neither become one nor touch one here."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clawsite.accounts.groups import APPROVER, AUDITOR, GATEWAY_PERMISSIONS, OPERATOR, SCOPES, USER
from clawsite.accounts.models import AccessToken, User, default_expiry
from clawsite.accounts.tokens import issue_token, revoke_token

WHAT_GROUPS_MAY = {
    USER: _("chat with agents, in conversations of one's own"),
    OPERATOR: _("run the installation in this admin, if “Staff status” is ticked too; not chat"),
    APPROVER: _("approve or deny what agents want to run"),
    AUDITOR: _("read everybody's conversations, and look at everything in this admin if “Staff status” is ticked too"),
}

admin.site.unregister(Group)


@admin.register(User)
class ClawUserAdmin(UserAdmin):
    list_display = ("username", "email", "is_active", "is_staff", "is_service", "last_login")
    list_filter = ("is_active", "is_staff", "is_service", "groups")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Personal info"), {"fields": ("first_name", "last_name", "email")}),
        (_("Rights"), {"fields": ("is_active", "is_staff", "groups", "is_superuser")}),
        (_("Important dates"), {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("username", "usable_password", "password1", "password2")}),
        (_("Rights"), {"fields": ("groups",)}),
    )
    filter_horizontal = ("groups",)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new account may chat, unless somebody decides otherwise."""
        return {"groups": list(Group.objects.filter(name=USER)), **super().get_changeform_initial_data(request)}

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        if field and db_field.name == "groups":
            lines = format_html_join("", "<strong>{}</strong> may {}.<br>", WHAT_GROUPS_MAY.items())
            field.help_text = format_html(
                "{}{}", lines, _("An account in no group can sign in, but not chat; one may be in several.")
            )
        return field

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        fixed = ("last_login", "date_joined")
        if obj and obj.is_service:  # switching one off is all there is to decide about it
            return (*fixed, "username", "password", "first_name", "last_name", "email", "is_staff", "groups", "is_superuser")
        return fixed if _is_superuser(request) else (*fixed, "is_superuser")

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        if User.objects.filter(pk=id, is_service=True).exists():
            raise PermissionDenied
        return super().user_change_password(request, id, form_url)


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _may_touch(request: HttpRequest, user: User | None) -> bool:
    """Setting a superuser's password is becoming one."""
    return user is None or not user.is_superuser or _is_superuser(request)


@admin.register(Group)
class ClawGroupAdmin(GroupAdmin):
    """The four groups of ours are put back after every migrate, so they can be looked at and not edited."""

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.name not in GATEWAY_PERMISSIONS)

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.name not in GATEWAY_PERMISSIONS)


class NewTokenForm(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"), choices=[(scope, scope) for scope in sorted(SCOPES)], widget=forms.CheckboxSelectMultiple
    )
    expires_at = forms.SplitDateTimeField(label=_("Expires"), initial=default_expiry, widget=AdminSplitDateTime)

    class Meta:
        model = AccessToken
        fields = ("name", "scopes", "expires_at")


@admin.register(AccessToken)
class AccessTokenAdmin(admin.ModelAdmin):
    """Tokens are made for oneself only: a token for somebody else would be a way to act in their name."""

    list_display = ("name", "user", "prefix", "scopes", "expires_at", "last_used_at", "revoked_at")
    list_filter = ("revoked_at", "expires_at")
    search_fields = ("name", "prefix", "user__username")
    fields = ("name", "user", "prefix", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    def get_form(self, request: HttpRequest, obj: AccessToken | None = None, change: bool = False, **kwargs: Any) -> Any:
        return NewTokenForm if obj is None else super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> Any:
        return NewTokenForm.Meta.fields if obj is None else self.fields

    def has_change_permission(self, request: HttpRequest, obj: AccessToken | None = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("accounts.delete_accesstoken")

    def save_model(self, request: HttpRequest, obj: AccessToken, form: forms.Form, change: bool) -> None:
        chosen, user = form.cleaned_data, User.objects.get(username=request.user.get_username())
        token, secret = issue_token(user, chosen["name"], chosen["scopes"], chosen["expires_at"])
        obj.__dict__.update(token.__dict__)
        request.issued_secret = secret  # type: ignore[attr-defined]  # for the one answer that shows it

    def response_add(self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None) -> HttpResponse:
        # Shown in this answer and not as a message, which would travel in a cookie first.
        context = {**self.admin_site.each_context(request), "title": _("Token issued"), "token": obj}
        context["secret"] = request.issued_secret  # type: ignore[attr-defined]
        return TemplateResponse(request, "admin/accounts/token_issued.html", context, headers={"Cache-Control": "no-store"})

    @admin.action(description=_("Revoke selected tokens"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        tokens = list(queryset.filter(revoked_at__isnull=True))
        for token in tokens:
            revoke_token(token)
        told = ngettext("%d token was revoked.", "%d tokens were revoked.", len(tokens)) % len(tokens)
        self.message_user(request, told, messages.SUCCESS)
