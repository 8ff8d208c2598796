"""Policy form checks that run before the service is called, so that errors appear in the form and the input is kept."""

from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _

from clawsite.infra.errors import Unavailable
from tools_app.models import PolicyVersion
from tools_app.policy.rules import RuleRow
from tools_app.policy_store import policies
from tools_app.sources import plugins

SEEN_VERSION_FIELD = "seen_version"
MAX_VERSIONS_SHOWN = 5  # versions published while the form was open


def make_seen_version_field() -> forms.IntegerField:
    """Return a hidden field with the version the user has seen, so that another user's change isn't overwritten."""
    return forms.IntegerField(label="", required=False, widget=forms.HiddenInput)


def check_version(form: forms.BaseForm, seen: Any) -> None:
    """Report another user's change, but only once: the input is kept, and saving again overwrites that change."""
    newest = policies.current_rules().version
    if seen is None or seen == newest:
        return
    renewed = cast("QueryDict", form.data).copy()
    renewed[SEEN_VERSION_FIELD] = str(newest)
    form.data = renewed
    versions = PolicyVersion.objects.filter(number__gt=seen).select_related("changed_by")[:MAX_VERSIONS_SHOWN]
    system = _("System")
    changes = "; ".join(f"{each.number}: {each.change}, {each.changed_by or system}" for each in versions)
    message = _("The policy was changed while you were editing (%s). Your input is kept: review it, then save again.")
    form.add_error(None, ValidationError(message % changes, code="conflict"))


def check_tests(form: forms.BaseForm, rule: RuleRow) -> None:
    """Add an error for each policy test that this rule would break. Needs all enabled plugins to be imported."""
    try:
        plugins.require_imported(plugins.list_enabled())
    except Unavailable as error:
        form.add_error(None, error.message)
        return
    for failure in policies.find_broken_tests(policies.current_rules().with_row(rule)):
        form.add_error(None, policies.describe_broken_test(failure))
