"""What is stopped, the form to stop something and the form to resume it. For people who administer the gateway."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents.freezes import freeze as stop_by_name
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError
from sessions_app.models import Freeze
from sessions_app.runs import freezes

MAX_LISTED = 20


@never_cache
@require_safe
@login_required
def list_freezes(request: HttpRequest) -> HttpResponse:
    """What is stopped now, what was, and the button."""
    user = _require_operator(request)
    past = Freeze.objects.filter(lifted_at__isnull=False).order_by("-lifted_at")[:MAX_LISTED]
    found = freezes.list_active()
    context = {"stops": freeze_banners(user), "past": past, "working": freezes.count_still_running(found)}
    context["everything"] = any(stop.scope == Freeze.Scope.ALL for stop in found)
    return render(request, "freezes/page.html", context)


@require_POST
@login_required
def freeze(request: HttpRequest) -> HttpResponse:
    """Everything, an agent or a run, with the reason that people will read."""
    user = _require_operator(request)
    scope, subject, reason = _parse_form(request)
    try:
        made, created = stop_by_name(scope, subject, reason=reason, by=user)
    except ClawError as refused:
        messages.error(request, refused.message)
    else:
        told = _("%(what)s is frozen.") if created else _("%(what)s is already frozen.")
        messages.warning(request, told % {"what": freeze_label(made)})  # done as wished, and yet no good news: nothing goes on
    return _redirect_back(request)


@require_POST
@login_required
def resume(request: HttpRequest) -> HttpResponse:
    user = _require_operator(request)
    scope, subject, reason = _parse_form(request)
    try:
        lifted = freezes.resume(scope, subject, reason=reason, by=user)
    except ClawError as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, _("%(what)s has resumed.") % {"what": freeze_label(lifted)})
    return _redirect_back(request)


def freeze_banners(user: User, found: list[Freeze] | None = None) -> list[dict[str, Any]]:
    """Stops in words for banners, with the way to resume them for those who may."""
    found = freezes.list_visible(user) if found is None else found
    return [_freeze_row(stop, may=freezes.may_freeze(user)) for stop in found]


def _freeze_row(stop: Freeze, *, may: bool) -> dict[str, Any]:
    told = {"what": freeze_label(stop), "who": stop.by_name, "why": stop.reason}
    return {
        "id": stop.pk,
        "scope": stop.scope,
        "subject": stop.subject,
        "what": freeze_label(stop),
        "words": _("%(what)s was frozen by %(who)s: %(why)s") % told,
        "at": stop.at,
        "resume": _("Resume…"),
        "href": f"{reverse('stops')}#stop-{stop.pk}" if may else "",
    }


def freeze_label(stop: Freeze) -> str:
    if stop.scope == Freeze.Scope.ALL:
        return _("Everything")
    words = _("Agent %(name)s") if stop.scope == Freeze.Scope.AGENT else _("Run %(name)s")
    return words % {"name": stop.subject}


def _require_operator(request: HttpRequest) -> User:
    user = cast("User", request.user)  # login_required
    if not freezes.may_freeze(user):
        raise PermissionDenied
    return user


def _parse_form(request: HttpRequest) -> tuple[str, str, str]:
    scope, subject, reason = (request.POST.get(name, "") for name in ("scope", "subject", "reason"))
    return scope, subject, reason


def _redirect_back(request: HttpRequest) -> HttpResponse:
    """To the page with the button, if it is one of ours."""
    wanted = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return redirect(wanted if ours else reverse("stops"))
