"""Admin classes for models that are written through a service, whose errors appear in the form."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from clawsite.infra.admin.base import ClawAdmin
from clawsite.infra.errors import ClawError
from tools_app.policy_store import policies
from tools_app.sources import plugins

SEEN_PARAMETER = "seen"  # the version the user saw when opening the delete page


class ServiceAdmin(ClawAdmin):
    """Forms call the service during validation, so that its errors appear in the form and the input is kept."""

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        self._import_plugins(request, object_id)
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ClawError:
            # Something changed between validation and saving. Validate again, which shows the error.
            return super().changeform_view(request, object_id, form_url, extra_context)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self._import_plugins(request, object_id)
        try:
            return super().delete_view(request, object_id, extra_context)
        except ClawError as error:
            self.message_user(request, error.message, messages.ERROR)
            return redirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[object_id]))

    def _import_plugins(self, request: HttpRequest, object_id: str | None) -> None:
        """Import plugins before the admin's transaction, which blocks other writers. The service reports what is missing."""
        if request.method == "POST" and self.has_view_or_change_permission(request):
            plugins.import_plugins(self._plugins_for(request, object_id), plugins.IMPORT_TIMEOUT_SECONDS)

    def _plugins_for(self, request: HttpRequest, object_id: str | None) -> list[str]:
        return plugins.list_enabled()

    def get_actions(self, request: HttpRequest) -> Any:
        """Remove the bulk delete action: if one row couldn't be deleted, the operation would be left half done."""
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}


class VersionedAdmin(ServiceAdmin):
    """Base class for versioned rows. A row that has changed since the user saw it is not deleted."""

    def current_version(self, request: HttpRequest, object_id: str) -> int | None:
        return policies.current_rules().version

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Put the version the user has seen into the URL, because the confirmation page has no form field for it."""
        needs_version = request.method == "GET" and SEEN_PARAMETER not in request.GET and self.has_delete_permission(request)
        if needs_version and (version := self.current_version(request, object_id)) is not None:
            params = request.GET.copy()
            params[SEEN_PARAMETER] = str(version)
            return redirect(f"{request.path}?{params.urlencode()}")
        return super().delete_view(request, object_id, extra_context)

    def seen_version(self, request: HttpRequest) -> int | None:
        """Return the version the user has seen, if it is in the URL."""
        seen = request.GET.get(SEEN_PARAMETER, "")[:9]
        return int(seen) if seen.isdecimal() else None
