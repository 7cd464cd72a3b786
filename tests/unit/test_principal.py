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
    someone = principal.bearer("laptop", Scope(servers=frozenset(("files",))))
    assert (someone.kind, someone.name, someone.uid) == ("token", "laptop", None)
    assert not any(someone.may(right) for right in Right)
    assert someone.scope.has("files") and not someone.scope.has("mail")
    assert principal.bearer(None).kind == "none"
    assert EVERYTHING.has("mail")


def test_what_is_within_another_scope_is_part_of_both() -> None:
    one = Scope(frozenset(("a", "b")), (("read_*",),), resources=False)
    other = Scope(frozenset(("b", "c")), (("*_file",),), read_only=True, prompts=False)
    both = one.within(other)
    assert both == Scope(
        frozenset(("b",)),
        (("read_*",), ("*_file",)),
        read_only=True,
        resources=False,
        prompts=False,
    )
    assert one.within(principal.EVERYTHING) is one and principal.EVERYTHING.within(one) is one
    assert not one.within(principal.NOTHING).has("a")
    assert both.lacks("prompts") and both.lacks("resources") and not both.lacks("tools")


def test_a_profile_takes_the_other_rights() -> None:
    within = principal.local(1000).in_profile("review")
    assert within.profile == "review" and not within.may(principal.Right.CONTROL)
