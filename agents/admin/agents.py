"""The agent admin: one form for identity, model, instructions, workspace, tools and limits."""

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.admin.forms import AgentForm, AgentToolsForm
from agents.llm.base import ProviderError
from agents.llm.catalog import resolve_model
from agents.models import MAIN_AGENT, Agent
from agents.prepare.effective_tools import find_unavailable_tools, with_agent_model
from agents.selectors import choose_model_name
from clawsite.accounts.models import User
from clawsite.infra.admin.base import RelatedRows
from clawsite.infra.reason_texts import translate_reason
from sessions_app.models import Session
from tools_app.admin.base import ServiceAdmin
from tools_app.models import ToolPolicy
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy_store import policies
from tools_app.policy_store.checks import find_warnings
from tools_app.sources.tools import load_tools

TOOL_FIELDS = ("profile", "also_allow", "allow", "deny")


@admin.register(Agent)
class AgentAdmin(ServiceAdmin):
    form = AgentForm
    change_form_outer_before_template = "freezes/_freeze_agent.html"
    list_display = ["slug", "name", "model_used", "readiness", "tool_profile", "workspace", "max_turns", "enabled"]
    list_filter = ["enabled", "model"]
    search_fields = ["slug", "name", "model"]
    ordering = ["slug"]
    readonly_fields = ["model_used", "effective_tools"]
    fieldsets = [
        (gettext_lazy("Identity"), {"fields": ["slug", "name", "enabled"]}),
        (
            gettext_lazy("Model"),
            {
                "fields": ["model", "model_used", "thinking_level"],
                "description": gettext_lazy("The model that answers. A session or a single message can use another one."),
            },
        ),
        (
            gettext_lazy("Instructions"),
            {"fields": ["instructions"], "description": gettext_lazy("Instructions the agent gets at the start of every session.")},
        ),
        (
            gettext_lazy("Workspace"),
            {
                "fields": ["workspace"],
                "description": gettext_lazy(
                    "Where the agent’s files are stored. A shared directory can be read by everyone who uses this agent."
                ),
            },
        ),
        (
            gettext_lazy("Tools"),
            {
                "fields": [*TOOL_FIELDS, "effective_tools", "seen_version"],
                "description": gettext_lazy(
                    "The agent’s layer of the tool policy. A tool is available only if all nine layers allow it."
                ),
            },
        ),
        (gettext_lazy("Limits"), {"fields": ["max_turns", "run_timeout_seconds"]}),
    ]

    class Media:
        css = {"all": ["css/stops.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        own = ToolPolicy.objects.filter(scope=ToolPolicy.Scope.AGENT, subject=OuterRef("pk"), provider="").values("profile")
        agents: QuerySet[Agent] = super().get_queryset(request)
        return agents.annotate(own_profile=Subquery(own))

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> list[str]:
        fixed = ["model_used", "effective_tools"]
        return [*fixed, "slug"] if obj else fixed  # sessions refer to it

    def get_form(self, request: HttpRequest, obj: Agent | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = AgentToolsForm if self._may_change_tools(request, obj) else AgentForm
        return super().get_form(request, obj, change, form=form, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Agent | None = None) -> list[tuple[Any, Any]]:
        """Show users who can't change policies the effective tools, but not the policy fields."""
        hidden = () if self._may_change_tools(request, obj) else (*TOOL_FIELDS, "seen_version")
        return [
            (title, {**rest, "fields": [name for name in rest["fields"] if name not in hidden]}) for title, rest in self.fieldsets
        ]

    def _may_change_tools(self, request: HttpRequest, obj: Agent | None) -> bool:
        may_save = self.has_change_permission(request, obj) if obj else self.has_add_permission(request)
        return may_save and request.user.has_perm("tools_app.change_toolpolicy")

    def get_actions(self, request: HttpRequest) -> Any:
        """Allow bulk deletion: no service is involved, and the admin asks for confirmation."""
        return super(ServiceAdmin, self).get_actions(request)

    def has_delete_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.slug != MAIN_AGENT)

    @admin.display(description=gettext_lazy("model in use"), ordering="model")
    def model_used(self, agent: Agent) -> str:
        used = choose_model_name(agent)
        return used if agent.model else _("%(model)s (server default)") % {"model": used}

    @admin.display(description=gettext_lazy("credentials"))
    def readiness(self, agent: Agent) -> Any:
        try:
            resolve_model(choose_model_name(agent))
        except ProviderError:
            return "missing", _("no credentials")
        return "ready", _("ready")

    readiness.label = {"ready": "success", "missing": "danger"}  # type: ignore[attr-defined]  # unfold's label colors

    @admin.display(description=gettext_lazy("tool profile"), ordering="own_profile")
    def tool_profile(self, agent: Any) -> str:
        return agent.own_profile or _("Server default")

    @admin.display(description=gettext_lazy("Tool access"))
    def effective_tools(self, agent: Agent) -> str:
        """Render which installed tools the nine policy layers allow a session's owner, and why the rest is missing."""
        if not agent.slug:
            return _("Available after the agent is saved.")
        rules = policies.current_rules()
        known = load_tools()
        facts = [each.facts for each in known.tools.values()]
        base_query = PolicyQuery(agent=agent.slug, is_owner=True, plugins=known.plugin_names)
        query = with_agent_model(base_query, agent).about(facts)
        verdict, missing = evaluate(query, rules), find_unavailable_tools(query, owner_id=0, known=known, agent=agent)
        lines = []
        for tool in sorted(facts, key=lambda each: (each.groups, each.name)):
            step = verdict.refused_by(tool.name)
            if step:
                reason_text = _("layer %(layer)s: %(rule)s") % {"layer": step.layer, "rule": translate_reason(step.rule)}
                result, css_class = _("denied"), "refused"
            elif reason := missing.get(tool.name):
                reason_text, result, css_class = translate_reason(reason), _("allowed, unavailable"), "missing"
            else:
                reason_text, result, css_class = "", _("allowed"), "allowed"
            lines.append((css_class, tool.name, tool.plugin or tool.groups[0], result, reason_text))
        body = format_html_join("", '<tr class="{}"><th scope="row">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>', lines)
        head = (_("Tool"), _("Tool group"), _("Result"), _("Reason"))
        titles = format_html_join("", '<th scope="col">{}</th>', ((each,) for each in head))
        note_text = _("Policy version %(version)d with %(model)s, for a user in their own session.")
        note = note_text % {"version": rules.version, "model": query.model_label}
        return format_html('<table class="tools"><thead><tr>{}</tr></thead><tbody>{}</tbody></table><p>{}</p>', titles, body, note)

    def related_links(self, row: Agent) -> Iterable[RelatedRows]:
        yield RelatedRows(_("Sessions"), Session, {"agent": row.slug})
        yield RelatedRows(_("Tool policy"), ToolPolicy, {"scope": "agent", "subject": row.slug})

    def save_model(self, request: HttpRequest, obj: Agent, form: Any, change: bool) -> None:
        """Save the agent and its policy rule; the admin's transaction covers both."""
        super().save_model(request, obj, form, change)
        rule = form.changed_policy_row() if isinstance(form, AgentToolsForm) else None
        if rule is None:
            return
        seen = form.cleaned_data.get("seen_version")
        warnings = list(find_warnings(rule, policies.current_rules()))
        policies.save_policy(**rule.to_json(), changed_by=cast(User, request.user), expected_version=seen)
        for warning in warnings:
            self.message_user(request, warning.message, messages.WARNING)
