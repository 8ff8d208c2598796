"""Accounts and groups in the admin. Users who aren't superusers can't become one or edit one here."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserChangeForm as DjangoUserChangeForm
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.admin import access  # noqa: F401  # tokens, browsers and the like, which register themselves
from clawsite.accounts.group_deletion import list_references
from clawsite.accounts.groups import APPROVER, AUDITOR, GATEWAY_PERMISSIONS, OPERATOR, USER
from clawsite.accounts.models import AccessToken, BrowserSession, User
from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.base import ClawAdmin, RelatedRows

if TYPE_CHECKING:  # unfold has no type hints; these are Django's forms in unfold's style
    from django.contrib.auth.forms import AdminPasswordChangeForm, AdminUserCreationForm, UserChangeForm
    from django.forms import CheckboxSelectMultiple
else:
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm
    from unfold.forms import UserCreationForm as AdminUserCreationForm
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as CheckboxSelectMultiple

GROUP_DESCRIPTIONS = {
    USER: _("chat with agents in their own sessions"),
    OPERATOR: _("manage this server in the admin, if “Staff status” is also checked, but not chat"),
    APPROVER: _("approve or deny commands that agents request"),
    AUDITOR: _("read everyone’s sessions and, with “Staff status”, the audit log and the rest of this admin"),
}

# Django's model permissions, by the first part of their codename.
PERMISSION_LABELS = {
    "add": _("Can add %(rows)s"),
    "change": _("Can change %(rows)s"),
    "delete": _("Can delete %(rows)s"),
    "view": _("Can view %(rows)s"),
}

admin.site.unregister(Group)


def _describe_group(name: str, abilities: Any) -> str:
    return format_html(gettext("<strong>{group}</strong> can {what}."), group=name, what=abilities)


def _permission_label(permission: Permission) -> str:
    """Return a permission in the reader's language; the database stores the English name."""
    action, _underscore, _model = permission.codename.partition("_")
    model = permission.content_type.model_class()
    if action not in PERMISSION_LABELS or model is None or permission.codename != f"{action}_{model._meta.model_name}":
        return gettext(permission.name)
    return str(PERMISSION_LABELS[action] % {"rows": model._meta.verbose_name_plural})


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _may_edit(request: HttpRequest, user: User | None) -> bool:
    """Only superusers can edit a superuser: setting its password means becoming one."""
    return user is None or not user.is_superuser or _is_superuser(request)


def _preview_deactivation(request: HttpRequest, user: User) -> ActionPreview:
    if not user.is_active:
        return ActionPreview(_("Already disabled"), acts=False)
    if user.pk == request.user.pk:
        return ActionPreview(_("Your own account can’t be disabled"), acts=False)
    if not _may_edit(request, user):
        return ActionPreview(_("Only a superuser can disable a superuser"), acts=False)
    return ActionPreview(_("Can no longer sign in; open pages and all tokens stop working immediately"))


def _preview_activation(request: HttpRequest, user: User) -> ActionPreview:
    if user.is_active:
        return ActionPreview(_("Already enabled"), acts=False)
    if not _may_edit(request, user):
        return ActionPreview(_("Only a superuser can enable a superuser"), acts=False)
    return ActionPreview(_("Can sign in again with the same password and permissions"))


@admin.register(User)
class ClawUserAdmin(UserAdmin, ClawAdmin):
    audited_as = ""  # audited by signals in accounts.audit
    form = UserChangeForm
    add_form = AdminUserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "display_name", "email", "is_active", "is_staff", "is_service", "last_login")
    list_filter = ("is_active", "is_staff", "is_service", "groups")
    date_hierarchy = "date_joined"
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Personal info"), {"fields": ("display_name", "email", "language", "theme")}),
        (_("Permissions"), {"fields": ("is_active", "is_staff", "groups", "is_superuser")}),
        (_("Important dates"), {"fields": ("last_login", "date_joined")}),
    )
    search_fields = ("username", "display_name", "email")
    actions = ("deactivate", "activate")
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("username", "usable_password", "password1", "password2")}),
        (_("Permissions"), {"fields": ("groups",)}),
    )

    def related_links(self, row: User) -> Iterable[RelatedRows]:
        # By name: sessions and runs belong to a higher layer.
        for label, relation in ((_("Sessions"), "claw_sessions"), (_("Runs"), "claw_runs")):
            yield RelatedRows(label, User._meta.get_field(relation).related_model, {"owner": row.pk})  # type: ignore[arg-type]  # a model, not "self"
        yield RelatedRows(_("Access tokens"), AccessToken, {"user": row.pk})
        yield RelatedRows(_("Signed-in browsers"), BrowserSession, {"user": row.pk})

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """New accounts can chat by default."""
        return {"groups": list(Group.objects.filter(name=USER)), **super().get_changeform_initial_data(request)}

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name != "groups":
            return super().formfield_for_manytomany(db_field, request, **kwargs)
        # Few enough for checkboxes instead of a two-box selector.
        field = super().formfield_for_manytomany(db_field, request, **kwargs, widget=CheckboxSelectMultiple)
        if field:
            lines = format_html_join("", "{}<br>", ((_describe_group(name, text),) for name, text in GROUP_DESCRIPTIONS.items()))
            field.help_text = format_html(
                "{}{}", lines, _("An account without a group can sign in but not chat. An account can be in several groups.")
            )
        return field

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:
        if (
            obj and obj.is_service
        ):  # a service account's password is read-only, but unfold's form requires an editable password field
            kwargs["form"] = DjangoUserChangeForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        fixed = ("last_login", "date_joined")
        if obj and obj.is_service:  # a service account can only be disabled
            return (*fixed, "username", "password", "display_name", "email", "is_staff", "groups", "is_superuser")
        return fixed if _is_superuser(request) else (*fixed, "is_superuser")

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_edit(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        if obj and obj.is_service:  # the gateway, cron and webhooks act as these accounts; they can be disabled
            return False
        return super().has_delete_permission(request, obj) and _may_edit(request, obj)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        if User.objects.filter(pk=id, is_service=True).exists():
            raise PermissionDenied
        return super().user_change_password(request, id, form_url)

    @with_confirmation(
        label=_("Disable accounts"),
        warning=_("These accounts can no longer sign in. Their sessions, runs and files are kept."),
        permission="change",
        preview=_preview_deactivation,
    )
    def deactivate(self, request: HttpRequest, rows: list[User]) -> str:
        self._set_active(request, rows, False)
        return ngettext("%d account was disabled.", "%d accounts were disabled.", len(rows)) % len(rows)

    @with_confirmation(
        label=_("Enable accounts"),
        warning=_("These accounts can sign in again."),
        permission="change",
        preview=_preview_activation,
    )
    def activate(self, request: HttpRequest, rows: list[User]) -> str:
        self._set_active(request, rows, True)
        return ngettext("%d account was enabled.", "%d accounts were enabled.", len(rows)) % len(rows)

    def _set_active(self, request: HttpRequest, rows: list[User], active: bool) -> None:
        for user in rows:
            user.is_active = active
            user.save(update_fields=["is_active"])  # one by one: open sockets listen to the save signal
            self.log_change(request, user, [{"changed": {"fields": ["is_active"]}}])


@admin.register(Group)
class ClawGroupAdmin(GroupAdmin, ClawAdmin):
    """The four built-in groups are restored after every migrate, so they are read-only."""

    audited_as = ""  # audited by signals in accounts.audit
    list_display = ("name", "members")
    filter_horizontal = ()  # disabled, because its script has untranslated text

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(db_field, request, **kwargs, widget=CheckboxSelectMultiple)
        if field:
            setattr(field, "label_from_instance", _permission_label)  # noqa: B010  # Django's way to label the choices; its stubs declare a method
        return field

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).annotate(member_count=Count("user"))

    @admin.display(description=_("members"), ordering="member_count")
    def members(self, group: Any) -> int:
        return int(group.member_count)

    def get_fieldsets(self, request: HttpRequest, obj: Group | None = None) -> Any:
        shown = "permissions" if self.has_change_permission(request, obj) else "rights"
        return [(None, {"fields": ["name", shown]})]

    @admin.display(description=_("permissions"))
    def rights(self, group: Group) -> str:
        permissions = group.permissions.select_related("content_type").order_by("content_type__app_label", "codename")
        return format_html(
            '<ul class="columns">{}</ul>', format_html_join("", "<li>{}</li>", ((_permission_label(each),) for each in permissions))
        )

    def related_links(self, row: Group) -> Iterable[RelatedRows]:
        yield RelatedRows(_("Members"), User, {"groups": row.pk})

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.name not in GATEWAY_PERMISSIONS)

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.name not in GATEWAY_PERMISSIONS)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """In the confirmation, list the rows that reference the group, and don't offer deletion if there are any."""
        nested, counts, missing, protected = super().get_deleted_objects(objs, request)
        names = [f"{row._meta.verbose_name} {row}" for group in objs for row in list_references(group)]
        return nested, counts, missing, [*protected, *names]
