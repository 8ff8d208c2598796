"""The admin's menu, grouped by topic. It shows only what the user may view."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

# Group -> (model or page, icon); icons are Material Symbols names, bundled with unfold.
MENU: tuple[tuple[Any, tuple[tuple[str, str], ...]], ...] = (
    (
        _("Chats"),
        (
            ("sessions_app.session", "forum"),
            ("sessions_app.run", "play_circle"),
            ("sessions_app.toolcall", "handyman"),
            ("sessions_app.transcriptentry", "notes"),
            ("sessions_app.event", "stream"),
            ("sessions_app.attachment", "attach_file"),
            ("sessions_app.outbox", "outbox"),
        ),
    ),
    (_("Agents and models"), (("agents.agent", "smart_toy"),)),
    (
        _("Tools and policy"),
        (
            ("policies", "rule"),
            ("tools_app.toolpolicy", "policy"),
            ("tools_app.policytest", "fact_check"),
            ("tools_app.policyversion", "history"),
            ("tools_app.mcpserver", "hub"),
            ("tools_app.plugin", "extension"),
        ),
    ),
    (
        _("Commands"),
        (
            ("approvals", "front_hand"),
            ("tools_app.execrule", "gavel"),
            ("tools_app.grant", "verified_user"),
            ("tools_app.command", "terminal"),
        ),
    ),
    (_("Webhooks"), (("connectors.hook", "webhook"), ("connectors.hookdelivery", "move_to_inbox"))),
    (
        _("Users and access"),
        (
            ("accounts.user", "person"),
            ("auth.group", "group"),
            ("accounts.accesstoken", "key"),
            ("gateway.device", "devices"),
            ("gateway.pairingrequest", "phonelink_setup"),
            ("gateway.nodeinvocation", "settings_remote"),
            ("accounts.failedsignins", "gpp_maybe"),
            ("accounts.knownaddress", "pin_drop"),
        ),
    ),
    (
        _("System"),
        (
            ("infra.auditentry", "verified_user"),
            ("stops", "emergency_home"),
            ("sessions_app.worker", "memory"),
            ("sessions_app.lane", "alt_route"),
            ("admin.logentry", "edit_note"),
        ),
    ),
)


# Pages outside the admin by URL name: title and required permission.
PAGES = {
    "policies": (_("Tool access explained"), "tools_app.view_toolpolicy"),
    "stops": (_("Freezes"), "accounts.administer_gateway"),
    "approvals": (_("Approvals"), "tools_app.view_approval"),
}
# Each topic has one entry: its page, which links to the admin table, or the table for users who may only view that.
TABLES = {"stops": "sessions_app.freeze", "approvals": "tools_app.approval"}
# Tables that operators may not view, and the page that explains why and how to get access.
EXPLAINED_PAGES = {"infra.auditentry": "audit"}


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """For unfold's SIDEBAR setting."""
    overview = {"title": _("Overview"), "icon": "space_dashboard", "link": reverse("admin:index")}
    overview["active"] = request.path == overview["link"]
    groups = [{"title": title, "items": [item for row in rows if (item := _menu_item(request, *row))]} for title, rows in MENU]
    return [{"title": "", "items": [overview]}, *(group for group in groups if group["items"])]


def _menu_item(request: HttpRequest, label: str, icon: str) -> dict[str, Any] | None:
    if label in PAGES:
        page_name, permission = PAGES[label]
        if request.user.has_perm(permission):
            return {"title": page_name, "icon": icon, "link": reverse(label), "active": False}
        if label not in TABLES:
            return None
        label = TABLES[label]
    app, model_name = label.split(".")
    try:
        link = reverse(f"admin:{app}_{model_name}_changelist")
    except NoReverseMatch:  # not registered in the admin
        return None
    model = apps.get_model(label)
    table = admin.site.get_model_admin(model)
    name = capfirst(str(getattr(table, "list_name", "") or model._meta.verbose_name_plural))
    if not table.has_view_or_change_permission(request):
        if label not in EXPLAINED_PAGES or not request.user.has_perm("accounts.administer_gateway"):
            return None
        link = reverse(EXPLAINED_PAGES[label])
    return {"title": name, "icon": icon, "link": link, "active": request.path.startswith(link)}
