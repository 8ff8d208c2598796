"""Scopes: those of the account, narrowed by its token and by the client's request, never widened."""

import pytest

from clawsite.gateway.protocol.scopes import Scope, effective_scopes, expand_scopes, has_scope

ALL = frozenset(scope.value for scope in Scope)
CHAT = frozenset({"operator.read", "operator.write"})


@pytest.mark.parametrize(
    ("account", "token", "requested", "effective"),
    [
        (ALL, None, [], ALL),
        (CHAT, None, [], CHAT),
        (CHAT, None, ["operator.admin"], CHAT),  # requesting everything yields what the account has
        (CHAT, None, ["operator.read", "operator.write", "operator.admin", "operator.approvals"], CHAT),
        (ALL, CHAT, ["operator.approvals"], frozenset()),
        (ALL, None, ["operator.write"], CHAT),
        (ALL, None, ["operator.read"], frozenset({"operator.read"})),
        (CHAT, None, ["operator.questions"], frozenset()),  # requesting only unknown scopes is not the same as requesting none
        (frozenset(), None, [], frozenset()),
    ],
)
def test_client_can_only_narrow_scopes(account, token, requested, effective):
    assert effective_scopes(account, token, expand_scopes(requested)) == effective


def test_write_scope_implies_only_read_scope():
    assert has_scope(frozenset({"operator.write"}), Scope.READ)
    assert not has_scope(frozenset({"operator.admin"}), Scope.APPROVALS)
    assert not has_scope(frozenset({"operator.admin"}), Scope.WRITE)
    assert not has_scope(frozenset({"operator.read"}), Scope.WRITE)
