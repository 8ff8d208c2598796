"""`claw token` with the test database."""

import argparse

import pytest

from clawsite.accounts.models import AccessToken
from clawsite.accounts.tokens import find_principal
from clawsite.cli.command import CommandFailed
from clawsite.cli.commands import token


def claw_token(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    token.add_arguments(parser)
    return token.run(parser.parse_args(arguments))


def test_token_is_printed_once_and_works_until_revoked(make_user, capsys):
    ada = make_user(name="ada")
    claw_token("create", "--user", "ada", "--name", "laptop", "--scope", "operator.read")
    secret = capsys.readouterr().out.splitlines()[0]
    principal = find_principal(secret)
    assert principal is not None
    assert (principal.user, principal.scopes) == (ada, {"operator.read"})
    claw_token("list", "--user", "ada")
    shown = capsys.readouterr().out
    assert "laptop" in shown
    assert secret not in shown
    claw_token("revoke", "--user", "ada", AccessToken.objects.get().prefix)
    assert find_principal(secret) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "--user", "nobody", "--name", "x"),
        ("create", "--user", "ada", "--name", "x", "--scope", "everything"),
        ("create", "--user", "ada", "--name", "x", "--days", "0"),
        ("revoke", "--user", "ada", "ffffffff"),
    ],
)
def test_invalid_token_commands_fail_with_a_message(make_user, arguments):
    make_user(name="ada")
    with pytest.raises(CommandFailed):
        claw_token(*arguments)
