"""Policy tests, which every policy version must pass: a list with results, and forms for operators to edit them."""

from collections import Counter

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.models import Agent
from clawsite.infra.errors import ClawError, Conflict, NotFound
from clawsite.web.policies.access import PolicyRequest, require_permissions
from tools_app.admin.policy_test_form import PolicyTestForm
from tools_app.models import PolicyTest
from tools_app.policy.expectations import Expectation
from tools_app.policy_store.policies import current_rules
from tools_app.policy_store.policy_tests import check_all_tests, delete_test, save_test
from tools_app.policy_store.vocabulary import suggest_entries

ADD_TEST, CHANGE_TEST, DELETE_TEST = "tools_app.add_policytest", "tools_app.change_policytest", "tools_app.delete_policytest"


class SuggestingForm(PolicyTestForm):
    """Adds suggestions from the page's datalists."""

    class Meta(PolicyTestForm.Meta):
        widgets = {
            "tool": forms.TextInput(attrs={"list": "entry-words", "autocomplete": "off", "spellcheck": "false"}),
            "agent": forms.TextInput(attrs={"list": "agents", "autocomplete": "off", "spellcheck": "false"}),
        }


@require_permissions()
@require_safe
def list_tests(request: PolicyRequest) -> HttpResponse:
    checked = check_all_tests()
    may = {
        "add": request.user.has_perm(ADD_TEST),
        "edit": request.user.has_perm(CHANGE_TEST),
        "delete": request.user.has_perm(DELETE_TEST),
    }
    counts = Counter(each.state for each in checked)
    context = {
        "checked": checked,
        "may": may,
        "now": current_rules().version,
        "broken": counts["broken"],
        "idle": counts["idle"],
        "holding": counts["holds"],
    }
    return render(request, "policies/tests.html", context)


@require_permissions(ADD_TEST)
@require_http_methods(["GET", "HEAD", "POST"])
def new_test(request: PolicyRequest) -> HttpResponse:
    return _handle_form(request, None)


@require_permissions(CHANGE_TEST)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_test(request: PolicyRequest, pk: int) -> HttpResponse:
    return _handle_form(request, get_object_or_404(PolicyTest, pk=pk))


@require_permissions(DELETE_TEST)
@require_POST
def delete_policy_test(request: PolicyRequest, pk: int) -> HttpResponse:
    seen = request.POST.get("seen", "")[:9]
    try:
        delete_test(pk, changed_by=request.user, expected_version=int(seen) if seen.isdecimal() else None)
    except NotFound as error:
        raise Http404 from error
    except Conflict as conflict:
        messages.error(request, conflict.message)
        return redirect("policy-tests")
    messages.success(request, _("The test was deleted."))
    return redirect("policy-tests")


def _handle_form(request: PolicyRequest, test: PolicyTest | None) -> HttpResponse:
    """Render the form, or save it and redirect."""
    initial = {name: request.GET[name][:200] for name in ("agent", "tool", "expected") if name in request.GET}
    form = SuggestingForm(request.POST or None, instance=test, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            save_test(
                test.pk if test else None,
                **{name: form.cleaned_data[name] for name in (*Expectation.TEXT_FIELDS, *Expectation.FLAG_FIELDS)},
                changed_by=request.user,
                expected_version=form.cleaned_data["seen_version"],
            )
        except ClawError as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, _("The test was saved. Versions that fail it can’t be published."))
            return redirect("policy-tests")
    context = {
        "form": form,
        # Reloaded, because the form has modified its instance.
        "test": PolicyTest.objects.filter(pk=test.pk).first() if test else None,
        "entries": suggest_entries(),
        "agents": Agent.objects.values_list("slug", flat=True),
    }
    return render(request, "policies/test_form.html", context, status=400 if form.errors else 200)
