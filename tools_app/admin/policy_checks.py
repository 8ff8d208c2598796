"""What the forms about the policy look at before a service refuses it: a refusal stands in the form, what was typed is kept."""

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
MAX_VERSIONS_SHOWN = 5  # versions that came meanwhile


def make_seen_version_field() -> forms.IntegerField:
    """What the editor had before them: a change made meanwhile by somebody else is not overwritten unseen."""
    return forms.IntegerField(label="", required=False, widget=forms.HiddenInput)


def check_version(form: forms.BaseForm, seen: Any) -> None:
    """A change made meanwhile is told once; what was typed stays, and saving again puts it on top."""
    newest = policies.current_rules().version
    if seen is None or seen == newest:
        return
    renewed = cast("QueryDict", form.data).copy()
    renewed[SEEN_VERSION_FIELD] = str(newest)
    form.data = renewed
    versions = PolicyVersion.objects.filter(number__gt=seen).select_related("changed_by")[:MAX_VERSIONS_SHOWN]
    system = _("System")
    told = "; ".join(f"{each.number}: {each.change}, {each.changed_by or system}" for each in versions)
    words = _("The policy was changed while you were editing (%s). Your input is kept: review it, then save again.")
    form.add_error(None, ValidationError(words % told, code="conflict"))


def check_tests(form: forms.BaseForm, rule: RuleRow) -> None:
    """The policy tests that this row would break, judged by what every plugin brings."""
    try:
        plugins.require_imported(plugins.list_enabled())
    except Unavailable as unfinished:
        form.add_error(None, unfinished.message)
        return
    for fault in policies.find_broken_tests(policies.current_rules().with_row(rule)):
        form.add_error(None, policies.describe_broken_test(fault))
