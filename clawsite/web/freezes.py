"""The freezes page, with the forms to freeze and resume work. For operators."""

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

from agents.freezes import freeze as freeze_by_name
from clawsite.accounts.models import User
from clawsite.infra.errors import ClawError
from sessions_app.models import Freeze
from sessions_app.runs import freezes

MAX_LISTED = 20


@never_cache
@require_safe
@login_required
def list_freezes(request: HttpRequest) -> HttpResponse:
    """List active and recent freezes."""
    user = _require_operator(request)
    past = Freeze.objects.filter(lifted_at__isnull=False).order_by("-lifted_at")[:MAX_LISTED]
    active = freezes.list_active()
    context = {"stops": freeze_banners(user), "past": past, "working": freezes.count_still_running(active)}
    context["everything"] = any(each.scope == Freeze.Scope.ALL for each in active)
    return render(request, "freezes/page.html", context)


@require_POST
@login_required
def freeze(request: HttpRequest) -> HttpResponse:
    """Freeze everything, an agent or a run. The reason is shown to users."""
    user = _require_operator(request)
    scope, subject, reason = _parse_form(request)
    try:
        frozen, created = freeze_by_name(scope, subject, reason=reason, by=user)
    except ClawError as error:
        messages.error(request, error.message)
    else:
        text = _("%(what)s is frozen.") if created else _("%(what)s is already frozen.")
        messages.warning(request, text % {"what": freeze_label(frozen)})  # a warning although it succeeded: work is on hold
    return _redirect_back(request)


@require_POST
@login_required
def resume(request: HttpRequest) -> HttpResponse:
    user = _require_operator(request)
    scope, subject, reason = _parse_form(request)
    try:
        lifted = freezes.resume(scope, subject, reason=reason, by=user)
    except ClawError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("%(what)s has resumed.") % {"what": freeze_label(lifted)})
    return _redirect_back(request)


def freeze_banners(user: User, active: list[Freeze] | None = None) -> list[dict[str, Any]]:
    """Describe freezes for banners, with a link to resume them for users who may."""
    active = freezes.list_visible(user) if active is None else active
    return [_freeze_row(each, may_resume=freezes.may_freeze(user)) for each in active]


def _freeze_row(row: Freeze, *, may_resume: bool) -> dict[str, Any]:
    params = {"what": freeze_label(row), "who": row.by_name, "why": row.reason}
    return {
        "id": row.pk,
        "scope": row.scope,
        "subject": row.subject,
        "what": freeze_label(row),
        "words": _("%(what)s was frozen by %(who)s: %(why)s") % params,
        "at": row.at,
        "resume": _("Resume…"),
        "href": f"{reverse('stops')}#stop-{row.pk}" if may_resume else "",
    }


def freeze_label(row: Freeze) -> str:
    if row.scope == Freeze.Scope.ALL:
        return _("Everything")
    label = _("Agent %(name)s") if row.scope == Freeze.Scope.AGENT else _("Run %(name)s")
    return label % {"name": row.subject}


def _require_operator(request: HttpRequest) -> User:
    user = cast("User", request.user)  # login_required
    if not freezes.may_freeze(user):
        raise PermissionDenied
    return user


def _parse_form(request: HttpRequest) -> tuple[str, str, str]:
    scope, subject, reason = (request.POST.get(name, "") for name in ("scope", "subject", "reason"))
    return scope, subject, reason


def _redirect_back(request: HttpRequest) -> HttpResponse:
    """Return to the page the form was on, if it is on this site."""
    target = request.POST.get("next", "")
    is_local = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return redirect(target if is_local else reverse("stops"))
