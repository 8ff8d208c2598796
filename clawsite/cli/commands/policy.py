"""`claw policy`: explain, export, import, test and restore the tool policy. Uses the database directly."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clawsite.cli.command import CommandFailed, load_django
from clawsite.cli.output import print_table, strip_control_characters
from clawsite.infra.errors import ClawError

if TYPE_CHECKING:
    from clawsite.accounts.models import User

HELP = "Explain, export, import, test and restore the tool policy"
EXAMPLES = """examples:
  claw policy explain --agent main                                     every tool: allowed, denied or unavailable, and why
  claw policy explain --agent support-bot --tool exec                  one tool, all nine layers
  claw policy explain --agent main --provider openai/gpt-5 --channel telegram --group -100123 --sender anna --json
  claw policy export > policy.yaml                                     the rules and tests in force; --version 12: older rules
  claw policy diff policy.yaml                                         what importing it would change; exit code 1 if anything
  claw policy import policy.yaml                                       show the diff, ask, and save it as the next version
  claw policy import policy.yaml --yes --expect-version 12             for scripts: only if 12 is still the current version
  claw policy test                                                     exit code 1 if a policy test is broken
  claw policy versions
  claw policy restore 11                                               as a new version; later versions stay in the history

Without options, a direct chat with the session's owner is assumed. The gateway may be running: changes apply immediately.
The page /policies/ shows the same, with editing and replay.
"""
STDIN = "-"
STATE_LABELS = {"broken": "BROKEN", "idle": "idle  ", "holds": "holds "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = actions.add_parser("explain", help="show which tools an agent gets, and which layer denies the others")
    explain.add_argument("--agent", metavar="ID", default="main", help="ID of the agent (default main)")
    explain.add_argument("--provider", metavar="P/M", default="", help="the model, such as openai/gpt-5, or only its provider")
    explain.add_argument("--tool", metavar="NAME", default="", help="only this tool, layer by layer")
    explain.add_argument("--channel", metavar="NAME", default="", help="such as telegram")
    explain.add_argument("--group", metavar="ID", default="", help="a group chat (default: a direct chat)")
    explain.add_argument("--sender", metavar="NAME", default="", help="ID, username or name of a sender in the group")
    explain.add_argument("--sandboxed", action="store_true", help="in an isolated workspace")
    explain.add_argument("--subagent", action="store_true", help="in a subagent session")
    explain.add_argument("--not-owner", action="store_true", help="the sender is not the session's owner")
    explain.add_argument("--json", action="store_true", help="print JSON with the whole trace")
    export = actions.add_parser("export", help="write rules and tests as YAML")
    export.add_argument("--version", metavar="N", type=int, help="rules of an earlier version, with the current tests")
    diff = actions.add_parser("diff", help="show what importing a file would change")
    importing = actions.add_parser("import", help="replace all rules and tests with a file")
    for each in (diff, importing):
        each.add_argument("file", metavar="FILE", help="a file written by `export`; - for standard input")
    actions.add_parser("test", help="run all policy tests")
    actions.add_parser("versions", help="list versions with author and change, newest first")
    restore = actions.add_parser("restore", help="save the rules of an earlier version as a new one")
    restore.add_argument("number", metavar="N", type=int)
    for each in (importing, restore):
        each.add_argument("--expect-version", metavar="N", type=int, help="only if this is still the current version")
        each.add_argument("--user", metavar="NAME", help="author shown in the history")
        each.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def run(options: argparse.Namespace) -> int:
    load_django(pool=False)
    from tools_app.sources import plugins

    try:
        # Plugins first, because rules and tests can name their tools.
        plugins.import_plugins(plugins.list_enabled(), plugins.IMPORT_TIMEOUT_SECONDS)
        return ACTIONS[options.action](options)
    except ClawError as error:
        raise CommandFailed(error.message) from error


def _explain(options: argparse.Namespace) -> int:
    from clawsite.cli.commands.policy_explain import explain

    return explain(options)


def _export(options: argparse.Namespace) -> int:
    from tools_app.policy_store.files import build_current_file
    from tools_app.policy_store.policies import rules_at

    sys.stdout.write(build_current_file(rules_at(options.version) if options.version is not None else None).to_yaml())
    return 0


def _diff(options: argparse.Namespace) -> int:
    from tools_app.policy_store.files import diff_with_current, parse_file

    diff = diff_with_current(parse_file(_read_text(options.file)))
    if diff:
        print(strip_control_characters(diff))
    return 1 if diff else 0


def _import(options: argparse.Namespace) -> int:
    from tools_app.policy_store.checks import find_warnings
    from tools_app.policy_store.files import diff_with_current, import_file, parse_file
    from tools_app.policy_store.policies import current_rules

    file = parse_file(_read_text(options.file))
    before = current_rules()
    expected = options.expect_version if options.expect_version is not None else before.version
    diff = diff_with_current(file)
    if not diff:
        print("Nothing to import: the file matches the current rules and tests.")
        return 0
    if not options.yes:
        _confirm(strip_control_characters(diff), "Import this?", may_ask=options.file != STDIN)
    version = import_file(file, changed_by=_find_author(options.user), expected_version=expected)
    print(f"Imported. This is policy version {version}.")
    rules = current_rules()
    for row in rules.rows:
        for warning in find_warnings(row, rules) if row not in before.rows else ():
            print(strip_control_characters(f"warning: {row.key}: {warning.message}"), file=sys.stderr)
    return 0


def _test(options: argparse.Namespace) -> int:
    from tools_app.policy_store.policy_tests import check_all_tests

    checked = check_all_tests()
    for each in checked:
        print(
            strip_control_characters(
                f"{STATE_LABELS[each.state]}  {each.test.name}" + (f"\n        {each.message}" if each.failure else "")
            )
        )
    broken, idle = (sum(each.state == state for each in checked) for state in ("broken", "idle"))
    print(f"{broken} of {len(checked)} broken." if broken else f"All {len(checked) - idle} hold.")
    if idle:
        print(f"{idle} idle: the plugin or MCP server of the tool is disabled, unavailable or not loaded yet.")
    return 1 if broken else 0


def _versions(options: argparse.Namespace) -> int:
    from tools_app.models import PolicyVersion

    versions = PolicyVersion.objects.select_related("changed_by")
    print_table(
        (
            str(each.number),
            f"{each.created_at:%Y-%m-%d %H:%M}",
            str(each.changed_by or "-"),
            f"{len(each.snapshot)} rows",
            each.change,
        )
        for each in versions
    )
    return 0


def _restore(options: argparse.Namespace) -> int:
    from tools_app.policy_store.files import build_current_file, diff_with_current
    from tools_app.policy_store.policies import current_rules, restore_version, rules_at

    expected = options.expect_version if options.expect_version is not None else current_rules().version
    diff = diff_with_current(build_current_file(rules_at(options.number)))
    if not diff:
        print(f"Nothing to restore: version {options.number} matches the current rules.")
        return 0
    if not options.yes:
        _confirm(strip_control_characters(diff), f"Restore version {options.number}?")
    version = restore_version(options.number, changed_by=_find_author(options.user), expected_version=expected)
    print(f"Version {options.number} is restored as policy version {version}.")
    return 0


def _confirm(shown: str, question: str, *, may_ask: bool = True) -> None:
    """Continue only if the user confirms. Without a terminal, --yes is required."""
    print(shown)
    if not (may_ask and sys.stdin.isatty()):
        raise CommandFailed("nothing was changed: there is no terminal to confirm in, so use --yes")
    if input(f"\n{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was changed")


def _find_author(name: str | None) -> "User | None":
    from clawsite.cli.commands.export import find_account

    return find_account(name) if name else None


def _read_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"cannot read {name}: {getattr(error, 'strerror', None) or 'not a text file'}") from error


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "explain": _explain,
    "export": _export,
    "diff": _diff,
    "import": _import,
    "test": _test,
    "versions": _versions,
    "restore": _restore,
}
