"""Texts of the reasons why a tool is unavailable in a run. Pure.

The factories of the tools are expensive to import, so the texts are here. Policy rules have theirs in tools_app.policy, commands in
tools_app.exec.reasons. The exec gate has its texts next to its rules.
"""

from clawsite.infra.reasons import gettext_noop as _
from clawsite.infra.reasons import register_later, register_reasons
from tools_app.exec import reasons as exec_reasons  # noqa: F401

register_later("tools_app.exec.gate.verdict")
register_reasons(
    {
        "tool.unknown": _("no such tool in this run"),
        "tool.denied_at_start": _("the policy denied it when this run started"),
        "tool.not_installed": _("not available in this version"),
        "tool.no_workspace": _("there is no workspace"),
        "tool.no_image_input": _("model `{model}` does not accept images"),
        "tool.openai_only": _("only for OpenAI models, not for `{model}`"),
        "tool.no_search_engine": _("no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY"),
        "tool.search_engine_unknown": _("CLAWSITE_SEARCH_PROVIDER names an unknown search engine: `{name}`"),
        "tool.search_engine_not_configured": _("CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured: `{name}`"),
        "tool.factory_failed": _("it could not be created, see the log: `{error}`"),
        "tool.factory_without_function": _("its factory does not return a function"),
        "tool.factory_without_plan": _("its factory does not plan calls, as a supervised tool must"),
        "source.plugin_dropped_it": _("plugin `{name}` no longer offers it"),
        "source.plugin_failed": _("plugin `{name}` can't be used now"),
        "source.plugin_disabled": _("plugin `{name}` is disabled"),
        "source.server_dropped_it": _("MCP server `{name}` no longer offers it"),
        "source.server_failed": _("MCP server `{name}` can't be used now"),
        "source.server_disabled": _("MCP server `{name}` is disabled"),
        "source.removed": _("its source `{name}` was removed"),
    }
)
