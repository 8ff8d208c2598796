"""The way to the audit log. Who may read it is led to it in the admin; an operator is told why they may not, and what to do.

It reads no entry: that is the admin's, where reading is recorded (clawsite.infra.admin).
"""

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from clawsite.accounts.models import User

VIEW_AUDIT_LOG = "infra.view_auditentry"
ADMINISTER_GATEWAY = "accounts.administer_gateway"
CHANGE_ACCOUNTS = "accounts.change_user"


@never_cache
@require_safe
@login_required
def audit_log(request: HttpRequest) -> HttpResponse:
    user = cast("User", request.user)
    if user.is_staff and user.has_perm(VIEW_AUDIT_LOG):
        return redirect("admin:infra_auditentry_changelist")
    if not (user.has_perm(VIEW_AUDIT_LOG) or user.has_perm(ADMINISTER_GATEWAY)):
        raise Http404
    may_change = user.is_staff and user.has_perm(CHANGE_ACCOUNTS)
    return render(request, "admin/audit_access.html", {"lacks_staff": user.has_perm(VIEW_AUDIT_LOG), "may_change": may_change})
