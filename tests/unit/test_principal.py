"""Principals and their rights."""

from __future__ import annotations

from mcpd import principal
from mcpd.principal import EVERYTHING, Right, Scope


def test_a_local_user_has_every_right() -> None:
    someone = principal.local(1000)
    assert (someone.kind, someone.name, someone.uid) == ("local", "uid 1000", 1000)
    assert all(someone.may(right) for right in Right)


def test_a_right_can_be_given_up() -> None:
    someone = principal.local(1000)
    assert not someone.without(Right.CONTROL).may(Right.CONTROL)
    assert someone.may(Right.CONTROL)
    assert someone.without(Right.CONTROL).without(Right.CONTROL).uid == 1000


def test_a_token_has_no_rights_and_a_scope() -> None:
    someone = principal.bearer("laptop", Scope(servers=("files",)))
    assert (someone.kind, someone.name, someone.uid) == ("token", "laptop", None)
    assert not any(someone.may(right) for right in Right)
    assert someone.scope.has("files") and not someone.scope.has("mail")
    assert principal.bearer(None).kind == "none"
    assert EVERYTHING.has("mail")
