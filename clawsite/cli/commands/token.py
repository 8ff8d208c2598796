"""`claw token`: create, list and revoke access tokens. Uses the database directly."""

import argparse
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from clawsite.cli.command import CommandFailed, load_django
from clawsite.infra import clock
from clawsite.infra.errors import ClawError

if TYPE_CHECKING:
    from clawsite.accounts.models import User

HELP = "Create, list and revoke a user's access tokens"
EXAMPLES = """examples:
  claw token create --user ada --name laptop                          can read and chat, for 90 days
  claw token create --user ada --name dashboard --scope operator.read --days 7
  claw token create --user ada --name ci --allow-tools read,group:web   its runs can use no other tools
  claw token list --user ada
  claw token revoke --user ada 3f9c21aa                               by its prefix, shown by `list`

The token is printed once; only its hash is stored. It never allows more than the account itself. Programs send it as
auth.token of `connect`; `claw` commands read it from CLAWSITE_GATEWAY_TOKEN.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a token and print it")
    create.add_argument("--name", required=True, help="what the token is for")
    create.add_argument(
        "--scope", action="append", metavar="SCOPE", help="may be repeated (default operator.read and operator.write)"
    )
    create.add_argument(
        "--allow-tools", action="append", default=[], metavar="LIST", help="allow only these tools: read,group:web,sessions_*"
    )
    create.add_argument(
        "--deny-tools", action="append", default=[], metavar="LIST", help="deny these tools, even if other rules allow them"
    )
    create.add_argument("--days", type=int, default=90, metavar="N", help="days until it expires (default 90)")
    actions.add_parser("list", help="list tokens, without their secrets")
    revoke = actions.add_parser("revoke", help="revoke a token immediately")
    revoke.add_argument("prefix", help="the part of the token after claw_")
    for action in actions.choices.values():
        action.add_argument("--user", metavar="NAME", required=True, help="owner of the token")


def run(options: argparse.Namespace) -> int:
    load_django()
    from clawsite.accounts.models import User

    user = User.objects.filter(username=options.user, is_service=False).first()
    if user is None:
        raise CommandFailed(f"there is no account {options.user!r}. Create one with `claw createsuperuser` or in /admin/.")
    try:
        {"create": _create, "list": _list_tokens, "revoke": _revoke}[options.action](user, options)
    except ClawError as error:
        raise CommandFailed(error.message) from error
    return 0


def _create(user: "User", options: argparse.Namespace) -> None:
    from clawsite.accounts import tokens
    from clawsite.accounts.groups import READ, WRITE

    expires = clock.now() + timedelta(days=options.days)
    allow, deny = _parse_entries(options.allow_tools), _parse_entries(options.deny_tools)
    scopes = options.scope or [READ, WRITE]
    token, secret = tokens.issue_token(user, options.name, scopes, expires, allow_tools=allow, deny_tools=deny)
    allowed = ", ".join(token.scopes) or "nothing: none of the account's groups has these scopes"
    print(f"{secret}\nCopy it now; it is not shown again. It allows {allowed}, until {token.expires_at:%Y-%m-%d}.")


def _parse_entries(lists: list[str]) -> list[str]:
    """Parse entries separated by commas or spaces. Print a note for an entry that matches no known tool."""
    from tools_app.policy_store.checks import parse_entries
    from tools_app.policy_store.vocabulary import is_known_tool

    entries = parse_entries(" ".join(lists))
    for entry in entries:
        if not entry.endswith("*") and not is_known_tool(entry):
            print(f"note: there is no tool, group or plugin {entry!r} now", file=sys.stderr)
    return entries


def _list_tokens(user: "User", options: argparse.Namespace) -> None:
    for token in user.access_tokens.select_related("made_with").order_by("created_at"):
        if token.revoked_at:
            state = "revoked"
        elif token.expires_at <= clock.now():
            state = "expired"
        else:
            state = "ended" if token.has_ended else f"until {token.expires_at:%Y-%m-%d}"
        parent = f"  created with {token.made_with.prefix}" if token.made_with else ""
        used = f"used {token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never used"
        tools = "".join(f"  {name} {','.join(entries)}" for name, entries in token.tools.items())
        print(f"{token.prefix}  {token.name}  {state}  {used}  {' '.join(token.scopes)}{tools}{parent}")


def _revoke(user: "User", options: argparse.Namespace) -> None:
    from clawsite.accounts import tokens

    token = user.access_tokens.filter(prefix=options.prefix.removeprefix("claw_").partition("_")[0]).first()
    if token is None:
        raise CommandFailed(
            f"{user.username} has no token {options.prefix!r}; `claw token list --user {user.username}` shows them."
        )
    tokens.revoke_token(token)
    print(f"{token.prefix} ({token.name}) is revoked.")
