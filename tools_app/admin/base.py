"""Rows that a service writes: what it refuses is said in words in the admin."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from clawsite.infra.admin.base import ClawAdmin
from clawsite.infra.errors import ClawError
from tools_app.policy_store import policies
from tools_app.sources import plugins

SEEN_PARAMETER = "seen"  # the version somebody had before them when they began to delete


class ServiceAdmin(ClawAdmin):
    """The form asks the service while it is checked, so that a refusal stands there and what was typed is kept."""

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._import_plugins(request, object_id)
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ClawError:
            # Something has changed between the form's own look and the save. It looks again, and says it.
            return super().changeform_view(request, object_id, form_url, extra_context)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self._import_plugins(request, object_id)
        try:
            return super().delete_view(request, object_id, extra_context)
        except ClawError as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return redirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[object_id]))

    def _import_plugins(self, request: HttpRequest, object_id: str | None) -> None:
        """Here, because the admin's own transaction holds off everybody else who writes. The service says what is not there."""
        if request.method == "POST" and self.has_view_or_change_permission(request):
            plugins.import_plugins(self._plugins_for(request, object_id), plugins.IMPORT_TIMEOUT_SECONDS)

    def _plugins_for(self, request: HttpRequest, object_id: str | None) -> list[str]:
        return plugins.list_enabled()

    def get_actions(self, request: HttpRequest) -> Any:
        """Without deleting many at once: one that may not go would leave the others half done."""
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}


class VersionedAdmin(ServiceAdmin):
    """Rows whose every change is a version, of the policy or of their own: what was changed meanwhile is not deleted unseen."""

    def current_version(self, request: HttpRequest, object_id: str) -> int | None:
        return policies.current_rules().version

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """What the person had before them travels in the address, because the question whether to delete has no field of ours."""
        may = request.method == "GET" and SEEN_PARAMETER not in request.GET and self.has_delete_permission(request)
        if may and (now := self.current_version(request, object_id)) is not None:
            asked = request.GET.copy()
            asked[SEEN_PARAMETER] = str(now)
            return redirect(f"{request.path}?{asked.urlencode()}")
        return super().delete_view(request, object_id, extra_context)

    def seen(self, request: HttpRequest) -> int | None:
        """The version that the person had before them, as far as the address says it."""
        seen = request.GET.get(SEEN_PARAMETER, "")[:9]
        return int(seen) if seen.isdecimal() else None
