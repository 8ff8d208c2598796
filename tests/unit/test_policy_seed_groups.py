"""The manual of the tool policy, sentence by sentence: each case quotes a sentence and checks it.

Chapters 3.4, group chats and senders, and 6, use cases.
"""

import pytest

from tests.unit.policy_cases import (
    ALL,
    FULL,
    GROUPS,
    Case,
    check_case,
    evaluate_rows,
    group_row,
    parametrize_cases,
    telegram_query,
    validated_row,
)
from tools_app.policy.rules import RuleRow

TELEGRAM = (
    FULL,
    group_row("-100123456", allow=("group:fs",)),
    group_row("-100123456", "admin_user", allow=("*",)),
    group_row("-100123456", "*", deny=("exec",)),
    group_row("*", deny=("gateway",)),
)


@parametrize_cases(
    Case("3.4 in this group only files", (FULL, TELEGRAM[1]), exactly=GROUPS["group:fs"], ask=telegram_query("-100123456")),
    Case(
        "3.4 the administrator's entry: everything", TELEGRAM, exactly=ALL, ask=telegram_query("-100123456", username="admin_user")
    ),
    Case(
        "3.4 everybody else's entry `*`: no exec; decided: it replaces the group's list",
        TELEGRAM,
        exactly=ALL - {"exec"},
        ask=telegram_query("-100123456", username="somebody"),
    ),
    Case(
        "3.4 any other group has the default entry `*`: no gateway",
        TELEGRAM,
        exactly=ALL - {"gateway"},
        ask=telegram_query("-100999"),
    ),
    Case(
        "3.4 … but not a group that has an entry of its own",
        TELEGRAM,
        kept=["gateway"],
        ask=telegram_query("-100123456", username="x"),
    ),
    Case("3.4 another channel has nothing to do with it", TELEGRAM, exactly=ALL, ask={"channel": "discord", "group": "-100123456"}),
    Case(
        "3.4 decided: channels are compared in lower case",
        TELEGRAM,
        refused=["gateway"],
        ask={"channel": "Telegram", "group": "-1"},
    ),
    Case("3.4 decided: a direct chat has no group layer", TELEGRAM, exactly=ALL, ask={"channel": "telegram"}),
    Case(
        "3.4 decided: a sender's entry for all groups counts where the group itself has none",
        (FULL, group_row("*", "anna", allow=("read",)), group_row("*", allow=("write",))),
        exactly={"read"},
        ask=telegram_query("-5", name="Anna"),
    ),
    Case(
        "3.4 decided: a group's own list comes before a sender's for all groups",
        (FULL, group_row("*", "anna", allow=("read",)), group_row("-5", allow=("write",))),
        exactly={"write"},
        ask=telegram_query("-5", name="anna"),
    ),
    Case(
        "3.4 decided: an entry without lists replaces too, so it does not limit",
        (FULL, group_row("-5", "anna"), group_row("-5", allow=("read",))),
        exactly=ALL,
        ask=telegram_query("-5", id="anna"),
    ),
)
def test_group_rules_match_manual(case):
    check_case(case)


KNOWN_BY = (("id", "u1"), ("e164", "+4912345"), ("username", "anna"), ("name", "anna b"))
FIRST_OF = {"u1": "read", "+4912345": "write", "anna": "edit", "anna b": "exec", "*": "cron", "": "nodes"}


@pytest.mark.parametrize("known", range(len(KNOWN_BY) + 1))
def test_sender_lookup_order_ends_with_wildcard(known):
    """When names are removed one by one, the lookup uses the next one."""
    rows = [FULL, *(group_row("-1", sender, allow=(name,)) for sender, name in FIRST_OF.items())]
    kept = evaluate_rows(rows, **telegram_query("-1", **dict(KNOWN_BY[known:]))).kept
    assert kept == (list(FIRST_OF.values())[known],)


def test_sender_lookup_without_wildcard_ends_with_group():
    rows = [FULL, group_row("-1", "u1", allow=("read",)), group_row("-1", allow=("nodes",))]
    assert evaluate_rows(rows, **telegram_query("-1", id="u2")).kept == ("nodes",)


@pytest.mark.parametrize("written", ["anna", "Anna", "@anna", " ANNA "])
def test_sender_match_ignores_case_and_at_sign(written):
    row = validated_row(scope="group", channel="telegram", group="-1", sender=written, deny=["exec"])
    for known in ("anna", "@Anna"):
        assert evaluate_rows([FULL, row], **telegram_query("-1", username=known)).refused_by("exec").layer == "group"


# 6

DANGEROUS = ("group:runtime", "gateway")


@parametrize_cases(
    Case(
        "6 anybody in a Discord group can set off the bot: exec and gateway are not shown there",
        (FULL, RuleRow("group", channel="discord", group="*", deny=DANGEROUS)),
        kept=["message", "web_search"],
        refused=["exec", "process", "gateway"],
        by="group",
        ask={"channel": "discord", "group": "8841"},
    ),
    Case(
        "6 a subagent must not get round the main agent: no sessions_send, memory_search or cron",
        (FULL,),
        kept=["read", "exec"],
        refused=["sessions_send", "memory_search", "cron"],
        by="subagent",
        ask={"is_subagent": True},
    ),
    Case(
        "6 inside a sandbox only its files are worked on",
        (FULL, RuleRow("sandbox", allow=("group:fs",))),
        exactly=GROUPS["group:fs"] | {"image"},
        ask={"sandboxed": True},
    ),
    Case(
        "6 a provider that does not take a tool's schema is not offered the tool",
        (FULL, RuleRow("global", provider="google", deny=("browser", "canvas"))),
        refused=["browser", "canvas"],
        by="global_provider",
        ask={"provider": "google", "model": "gemini-3"},
    ),
    Case(
        "6 groups serve different ends: exec for the operators' group",
        (FULL, group_row("ops", allow=("exec", "read")), group_row("support", allow=("message",))),
        exactly={"exec", "read"},
        ask=telegram_query("ops"),
    ),
    Case(
        "6 … and message alone for the support group",
        (FULL, group_row("ops", allow=("exec", "read")), group_row("support", allow=("message",))),
        exactly={"message"},
        ask=telegram_query("support"),
    ),
    Case(
        "6 people have different rights: the owner gets everything",
        (FULL, group_row("team", "anna", allow=("*",)), group_row("team", "*", allow=("message",))),
        exactly=ALL,
        ask=telegram_query("team", username="anna"),
    ),
    Case(
        "6 … others are limited",
        (FULL, group_row("team", "anna", allow=("*",)), group_row("team", "*", allow=("message",))),
        exactly={"message"},
        ask=telegram_query("team", username="bob"),
    ),
)
def test_policy_use_cases_match_manual(case):
    check_case(case)
