"""Hypothesis strategies for policy rows and queries, from a small vocabulary so that rows and queries often match.

A value listed twice is drawn twice as often.
"""

from hypothesis import strategies as st

from sessions_app.origin import Sender
from tools_app.policy.catalog import PROFILES
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry

PLUGINS = {"acme": ("acme_post", "acme_read"), "weather": ("weather_today",)}
PLUGIN_NAMES = tuple(sorted({*PLUGINS, *(name for names in PLUGINS.values() for name in names)}))
TOOLS = (
    *ToolRegistry.build([]).nameable,
    *(ToolFacts(name, ("plugins",), plugin) for plugin, names in PLUGINS.items() for name in names),
)

SOME = {"read", "exec", "cron", "message", "image", "whatsapp_login", "session_status", "web_fetch", "acme_post", "weather_today"}
QUERIED_TOOLS = tuple(facts for facts in TOOLS if facts.name in SOME)

ENTRIES = st.sampled_from(
    [
        *("read", "exec", "cron", "message", "image", "whatsapp_login", "session_status", "bash", "Read", "web_fetch"),
        *("group:fs", "group:runtime", "group:sessions", "group:openclaw", "group:plugins", " GROUP:web "),
        *("*", "sessions_*", "web_*", "acme_*", "a*"),
        *("acme", "weather", "acme_post", "acne", "group:nope", "group:*", "", " ", "r*d"),
    ]
)
lists = st.lists(ENTRIES, max_size=4).map(tuple)
profiles = st.sampled_from(["", "", "full", *PROFILES, "nope"])
agents = st.sampled_from(["main", "main", "other"])
providers = st.sampled_from(["", "openai", "openai/gpt-5", "google"])
group_ids = st.sampled_from(["-1", "-2", "*"])
sender_names = st.sampled_from(["", "*", "anna", "+49", "u1"])

global_rows = st.builds(RuleRow, st.just("global"), profile=profiles, allow=lists, deny=lists, also_allow=lists, provider=providers)
agent_rows = st.builds(
    RuleRow, st.just("agent"), agents, profile=profiles, allow=lists, deny=lists, also_allow=lists, provider=providers
)
group_rows = st.builds(
    RuleRow,
    st.just("group"),
    allow=lists,
    deny=lists,
    channel=st.sampled_from(["telegram", "telegram", "discord"]),
    group=group_ids,
    sender=sender_names,
)
sandbox_rows = st.builds(RuleRow, st.just("sandbox"), st.just("") | agents, allow=lists, deny=lists)
subagent_rows = st.builds(RuleRow, st.just("subagent"), allow=lists, deny=lists)
rows = global_rows | agent_rows | group_rows | sandbox_rows | subagent_rows
row_sets = st.lists(rows, max_size=6, unique_by=lambda row: row.scope_values).map(tuple)
# Mostly with a profile that leaves decisions to the other layers.
rule_sets = st.builds(
    lambda version, found, head: PolicyRules(version, found).with_row(head) if head else PolicyRules(version, found),
    st.integers(1, 99),
    row_sets,
    st.sampled_from(
        [None, RuleRow("global", profile="full"), RuleRow("global", profile="full"), RuleRow("global", profile="coding")]
    ),
)

senders = st.builds(
    Sender,
    id=st.sampled_from(["", "u1", "u2"]),
    e164=st.sampled_from(["", "+49"]),
    username=st.sampled_from(["", "@Anna"]),
    name=st.sampled_from(["", "Anna", "Bob"]),
)
queries = st.builds(
    PolicyQuery,
    agent=agents,
    is_owner=st.booleans(),
    is_subagent=st.booleans(),
    tools=st.sampled_from([QUERIED_TOOLS, QUERIED_TOOLS, TOOLS, ()]),
    provider=st.sampled_from(["openai", "openai", "OpenAI", "google", "mistral", ""]),
    model=st.sampled_from(["gpt-5", "gpt-5", "GPT-5", "gemini", ""]),
    channel=st.sampled_from(["telegram", "telegram", "Telegram", "discord", ""]),
    group=st.sampled_from(["", "-1", "-1", "-2", "-3"]),
    sender=senders,
    sandboxed=st.booleans(),
    plugins=st.sampled_from([PLUGIN_NAMES, PLUGIN_NAMES, ()]),
)
