"""The manual of the tool policy, sentence by sentence: each case quotes a sentence and checks it.

Chapters 3.4 where each layer's rules come from, 3.5 also allow, 3.6 tools for the owner only.
Group chats and chapter 6 are in test_policy_seed_groups.py.
Where the manual leaves something open, the case says what was decided.
"""

import pytest

from sessions_app.keys import parse_key
from tests.unit.policy_cases import ALL, ANYWHERE, FULL, GROUPS, Case, agent_row, check_case, global_row, parametrize_cases
from tools_app.policy.catalog import PROFILES, SUBAGENT_DENY
from tools_app.policy.rules import RuleRow

# 3.4

OPUS = RuleRow("global", provider="anthropic/claude-opus-4", allow=("*",))
ANTHROPIC = RuleRow("global", provider="anthropic", deny=("browser",))
SUPPORT = RuleRow("agent", "support-bot", profile="messaging", allow=("group:messaging", "group:web"), deny=("exec",))


@parametrize_cases(
    Case("3.4 minimal: session_status", (RuleRow("global", profile="minimal"),), exactly={"session_status"}),
    Case(
        "3.4 coding: files, commands, sessions, memory, image",
        (RuleRow("global", profile="coding"),),
        exactly=GROUPS["group:fs"] | GROUPS["group:runtime"] | GROUPS["group:sessions"] | GROUPS["group:memory"] | {"image"},
    ),
    Case(
        "3.4 messaging: messages, sessions_list, sessions_send, session_status",
        (RuleRow("global", profile="messaging"),),
        exactly={"message", "sessions_list", "sessions_send", "session_status"},
    ),
    Case("3.4 full: allow is empty, no limit", (FULL,), exactly=ALL),
    Case("3.4 decided: without any profile it is minimal", (), exactly={"session_status"}),
    Case(
        "3.4 decided: an agent's profile replaces the global one", (FULL, agent_row(profile="minimal")), exactly={"session_status"}
    ),
    Case("3.4 … in both directions", (RuleRow("global", profile="minimal"), agent_row(profile="full")), exactly=ALL),
)
def test_profiles_match_manual(case):
    check_case(case)


def test_four_profiles_exist():
    assert set(PROFILES) == {"minimal", "coding", "messaging", "full"}


@parametrize_cases(
    Case(
        "3.4 a provider's rule counts for its models",
        (FULL, ANTHROPIC),
        refused=["browser"],
        by="global_provider",
        ask={"provider": "anthropic", "model": "x"},
    ),
    Case("3.4 … and for no other provider's", (FULL, ANTHROPIC), exactly=ALL, ask={"provider": "openai", "model": "x"}),
    Case("3.4 … nor where no model is known", (FULL, ANTHROPIC), exactly=ALL),
    Case(
        "3.4 provider/model comes before provider",
        (FULL, ANTHROPIC, OPUS),
        exactly=ALL,
        ask={"provider": "anthropic", "model": "claude-opus-4"},
    ),
    Case(
        "3.4 … for that model alone",
        (FULL, ANTHROPIC, OPUS),
        refused=["browser"],
        ask={"provider": "anthropic", "model": "claude-opus-5"},
    ),
    Case(
        "3.4 decided: providers are compared in lower case",
        (FULL, ANTHROPIC),
        refused=["browser"],
        ask={"provider": "Anthropic", "model": "X"},
    ),
    Case(
        "3.4 the first found is the only one asked",
        (FULL, ANTHROPIC, RuleRow("global", provider="anthropic/claude-opus-4", deny=("canvas",))),
        kept=["browser"],
        refused=["canvas"],
        by="global_provider",
        ask={"provider": "anthropic", "model": "claude-opus-4"},
    ),
    Case(
        "3.4 decided: the row of a model is the only one asked, also where it has no lists",
        (FULL, ANTHROPIC, RuleRow("global", provider="anthropic/claude-opus-4", profile="full")),
        kept=["browser"],
        ask={"provider": "anthropic", "model": "claude-opus-4"},
    ),
    Case(
        "3.4 decided: and where it says nothing at all",
        (FULL, ANTHROPIC, RuleRow("global", provider="anthropic/claude-opus-4")),
        kept=["browser"],
        ask={"provider": "anthropic", "model": "claude-opus-4"},
    ),
    Case(
        "3.4 an agent's provider/model comes before its provider",
        (FULL, agent_row(provider="openai", deny=("exec",)), agent_row(provider="openai/gpt-5", deny=("cron",))),
        kept=["exec"],
        refused=["cron"],
        by="agent_provider",
        ask=ANYWHERE,
    ),
    Case(
        "3.4 the layer of an agent's provider does not replace the global one's",
        (FULL, RuleRow("global", provider="openai", deny=("exec",)), agent_row(provider="openai", deny=("cron",))),
        refused=["exec", "cron"],
        ask=ANYWHERE,
    ),
    Case(
        "3.3 a provider has a profile of its own, in a layer of its own",
        (FULL, RuleRow("global", provider="openai", profile="minimal")),
        exactly={"session_status"},
        ask=ANYWHERE,
    ),
    Case(
        "3.4 decided: an agent's profile for a provider replaces the global one for it",
        (FULL, RuleRow("global", provider="openai", profile="minimal"), agent_row(provider="openai", profile="messaging")),
        exactly={"message", "sessions_list", "sessions_send", "session_status"},
        ask=ANYWHERE,
    ),
)
def test_provider_rules_match_manual(case):
    check_case(case)


@parametrize_cases(
    Case("3.4 an agent has profile, allow and deny of its own", (FULL, SUPPORT), exactly={"message"}, ask={"agent": "support-bot"}),
    Case("3.4 … and another agent is not touched by them", (FULL, SUPPORT), exactly=ALL, ask={"agent": "main"}),
    Case(
        "3.4 its allow list is a further limit, no addition to its profile",
        (FULL, SUPPORT),
        refused=["web_search", "web_fetch"],
        by="profile",
        ask={"agent": "support-bot"},
    ),
    Case(
        "3.4 its deny list is stronger than its profile",
        (RuleRow("agent", "main", profile="coding", deny=("exec",)),),
        refused=["exec"],
        by="agent",
    ),
)
def test_agent_rules_match_manual(case):
    check_case(case)


def test_subagent_fixed_deny_list_matches_manual():
    assert set(SUBAGENT_DENY) == {
        *("sessions_list", "sessions_history", "sessions_send", "sessions_spawn"),  # the main agent directs
        *("gateway", "agents_list"),  # running the system
        "whatsapp_login",  # setting up, with a person
        *("session_status", "cron"),  # the main agent coordinates
        *("memory_search", "memory_get"),  # handed over in the prompt
    }


@parametrize_cases(
    Case("3.4 a subagent is refused what is on it", (FULL,), refused=SUBAGENT_DENY, by="subagent", ask={"is_subagent": True}),
    Case("3.4 … and nothing else", (FULL,), kept=ALL - set(SUBAGENT_DENY), ask={"is_subagent": True}),
    Case("3.4 the main agent is not", (FULL,), exactly=ALL),
    Case(
        "3.4 the list is fixed: no row opens it",
        (FULL, RuleRow("subagent", allow=("*", "cron"))),
        refused=SUBAGENT_DENY,
        by="subagent",
        ask={"is_subagent": True},
    ),
    Case(
        "3.4 decided: a row may refuse more",
        (FULL, RuleRow("subagent", deny=("exec",))),
        refused=[*SUBAGENT_DENY, "exec"],
        by="subagent",
        ask={"is_subagent": True},
    ),
)
def test_subagent_rules_match_manual(case):
    check_case(case)


@pytest.mark.parametrize(
    ("key", "is_subagent"),
    [
        ("agent:main:subagent:0b1c", True),
        ("agent:main:SubAgent:0b1c", True),
        ("agent:main:main", False),
        ("agent:main:telegram:group:-100", False),
        ("agent:main:my-subagent", False),
    ],
)
def test_subagent_is_recognized_by_session_key(key, is_subagent):
    assert parse_key(key).is_subagent is is_subagent


@parametrize_cases(
    Case(
        "3.3 in a sandbox, where nobody has said otherwise: files, commands, image and other sessions",
        (FULL,),
        exactly=GROUPS["group:fs"] | GROUPS["group:runtime"] | GROUPS["group:sessions"] - {"subagents"} | {"image"},
        ask={"sandboxed": True},
    ),
    Case("3.3 outside it that list does not count", (FULL,), exactly=ALL),
    Case(
        "3.3 a row takes the place of that list; image stays",
        (FULL, RuleRow("sandbox", allow=("group:fs",))),
        exactly=GROUPS["group:fs"] | {"image"},
        ask={"sandboxed": True},
    ),
    Case(
        "3.3 … unless image is denied",
        (FULL, RuleRow("sandbox", allow=("read",), deny=("image",))),
        exactly={"read"},
        ask={"sandboxed": True},
    ),
    Case(
        "3.3 decided: a sandbox's list of plugins only is taken at its word",
        (FULL, RuleRow("sandbox", allow=("msteams",))),
        exactly={"msteams_post", "msteams_read", "image"},
        ask={"sandboxed": True},
    ),
    Case(
        "3.3 an agent's sandbox row takes the place of the one for all",
        (FULL, RuleRow("sandbox", allow=("read",)), RuleRow("sandbox", "main", deny=("exec",))),
        exactly=ALL - {"exec"},
        ask={"sandboxed": True},
    ),
)
def test_sandbox_rules_match_manual(case):
    check_case(case)


# 3.5


@parametrize_cases(
    Case(
        "3.5 coding with web_search and web_fetch also allowed is coding and these two, without going to full",
        (RuleRow("global", profile="coding", also_allow=("web_search", "web_fetch")),),
        kept=["read", "exec", "web_search", "web_fetch"],
        refused=["browser", "cron", "message"],
        by="profile",
    ),
    Case(
        "3.5 it is merged into the profile's allow list, so another layer still refuses",
        (RuleRow("global", profile="coding", also_allow=("web_search",), deny=("web_search",)),),
        refused=["web_search"],
        by="global",
    ),
    Case(
        "3.5 … and into no other list",
        (RuleRow("global", profile="coding", also_allow=("web_search",), allow=("read",)),),
        exactly={"read"},
    ),
    Case("3.5 full stays without limits", (RuleRow("global", profile="full", also_allow=("web_search",)),), exactly=ALL),
    Case(
        "3.5 decided: an agent's replaces the global one",
        (RuleRow("global", profile="minimal", also_allow=("read",)), agent_row(also_allow=("write",))),
        exactly={"session_status", "write"},
    ),
    Case(
        "3.5 decided: an agent's profile alone keeps the global additions",
        (RuleRow("global", profile="full", also_allow=("read",)), agent_row(profile="minimal")),
        exactly={"session_status", "read"},
    ),
    Case(
        "3.5 a provider's profile has its own",
        (FULL, RuleRow("global", provider="openai", profile="minimal", also_allow=("read",))),
        exactly={"session_status", "read"},
        ask=ANYWHERE,
    ),
)
def test_also_allow_matches_manual(case):
    check_case(case)


# 3.6


@parametrize_cases(
    Case("3.6 whatsapp_login is for the owner", (FULL,), kept=["whatsapp_login"], ask={"is_owner": True}),
    Case(
        "3.6 others lose it",
        (FULL,),
        exactly=ALL - {"whatsapp_login"},
        refused=["whatsapp_login"],
        by="owner",
        ask={"is_owner": False},
    ),
    Case(
        "3.6 whatever a row allows",
        (global_row(allow=("*", "whatsapp_login")),),
        refused=["whatsapp_login"],
        by="owner",
        ask={"is_owner": False},
    ),
    Case("3.6 being the owner opens no layer", (RuleRow("global", profile="minimal"),), refused=["whatsapp_login"], by="profile"),
)
def test_owner_only_tools_match_manual(case):
    check_case(case)
