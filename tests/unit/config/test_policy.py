"""``[trust]``, ``[profiles]`` and what a server's own table says of its calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpd.config.load import Loaded, load
from mcpd.config.policy import ProfileConfig, Rate, ServerPolicy, TrustConfig, rate_of
from mcpd.config.reading.policy_table import NOTHING


def loaded(tmp_path: Path, content: object) -> Loaded:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return load(str(path), {"HOME": str(tmp_path)})


def policy(tmp_path: Path, **keys: object) -> ServerPolicy:
    found = loaded(tmp_path, {"mcpServers": {"a": {"command": "x", **keys}}})
    assert found.problems == ()
    config = found.entries["a"].config
    assert config is not None
    return config.policy


def test_an_entry_says_what_is_asked(tmp_path: Path) -> None:
    assert policy(tmp_path) == ServerPolicy()
    found = policy(tmp_path, approval="trusted", trusted=["read_*"], ask=["rm"], rate="60/min")
    assert (found.approval, found.trusted, found.ask) == ("trusted", ("read_*",), ("rm",))
    assert rate_of(found.rate) == Rate(60, 60.0)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"alwaysAllow": ["read"]}, ServerPolicy(trusted=("read",))),
        ({"autoApprove": ["a"], "trusted": ["b"]}, ServerPolicy(trusted=("b", "a"))),
        ({"trust": True}, ServerPolicy(approval="auto")),
        ({"trust": True, "approval": "ask"}, ServerPolicy(approval="ask")),
        ({"default_tools_approval_mode": "prompt"}, ServerPolicy(approval="ask")),
        ({"default_tools_approval_mode": "approve"}, ServerPolicy(approval="auto")),
        (
            {"tools": {"rm": {"approval_mode": "prompt"}, "a*": {"approval_mode": "approve"}}},
            ServerPolicy(ask=("rm",), trusted=("a[*]",)),
        ),
        (
            {"toolApproval": "trusted-only", "trustedTools": ["read"]},
            ServerPolicy(approval="trusted", trusted=("read",)),
        ),
    ],
)
def test_other_clients_words_mean_the_same(
    tmp_path: Path, keys: dict[str, object], expected: ServerPolicy
) -> None:
    assert policy(tmp_path, **keys) == expected


def test_what_is_not_said_is_the_default(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"trust": {"pin": "hold", "audit_max": "4MiB"}})
    assert found.trust == TrustConfig(pin="hold", audit_max=4 * 1024 * 1024)
    assert loaded(tmp_path, {}).trust == TrustConfig()


def test_profiles_have_names(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"profiles": {"review": {"tools": ["read_*"], "rate": "2/s"}}})
    assert found.profiles == {"review": ProfileConfig(tools=("read_*",), rate="2/s")}


@pytest.mark.parametrize("content", [{"tools": "read_*"}, {"read_only": "yes"}, "everything"])
def test_a_profile_that_cannot_be_read_allows_nothing(tmp_path: Path, content: object) -> None:
    found = loaded(tmp_path, {"profiles": {"review": content}})
    assert found.profiles == {"review": NOTHING} and found.errors


@pytest.mark.parametrize("rate", ["", "10/s", "60/min", "500 / h"])
def test_a_rate_is_calls_in_a_time(tmp_path: Path, rate: str) -> None:
    policy(tmp_path, rate=rate)


@pytest.mark.parametrize("rate", ["60", "0/min", "-1/s", "1/d", "1.5/s", 60, "a/min"])
def test_another_rate_is_refused(tmp_path: Path, rate: object) -> None:
    found = loaded(tmp_path, {"mcpServers": {"a": {"command": "x", "rate": rate}}})
    assert [problem.key for problem in found.errors] == ["mcpServers.a.rate"]


def test_what_may_be_called_restarts_no_server(tmp_path: Path) -> None:
    from mcpd.config.diff import Change, diff

    old = loaded(tmp_path, {"mcpServers": {"a": {"command": "x"}}})
    new = loaded(tmp_path, {"mcpServers": {"a": {"command": "x", "approval": "ask"}}})
    assert diff(old, new) == Change(filters_only=("a",))
    assert diff(old, loaded(tmp_path, {"trust": {"pin": "hold"}})).policy


def warnings(tmp_path: Path, keys: dict[str, object]) -> list[str]:
    found = loaded(tmp_path, {"mcpServers": {"a": {"command": "x", **keys}}})
    assert found.errors == ()
    return [each.message for each in found.problems]


@pytest.mark.parametrize("key", ["trusted", "ask", "pin_volatile"])
def test_a_regular_expression_is_told(tmp_path: Path, key: str) -> None:
    assert "looks like a regular expression" in str(warnings(tmp_path, {key: ["^read_.*$"]}))
    assert warnings(tmp_path, {key: ["read_*", "a.b", "[a-z]?"]}) == []
    assert "looks like a regular" in str(warnings(tmp_path, {"tools": {"deny": ["a|b"]}}))


def test_what_lets_through_more_than_meant_is_told(tmp_path: Path) -> None:
    assert "delete_read_all" in str(warnings(tmp_path, {"trusted": ["*read*"]}))
    assert warnings(tmp_path, {"ask": ["*read*"], "trusted": ["*_read", "*"]}) == []
    found = loaded(tmp_path, {"profiles": {"p": {"tools": ["git.*", "*read*"]}}})
    assert len(found.problems) == 1


def test_what_cannot_be_read_of_trust_is_the_strictest(tmp_path: Path) -> None:
    """
    The defaults ask nobody and hold nothing: a word that is spelled wrongly would turn it off.
    """
    wrong = {"approval": "asks", "pin": "holds", "audit_required": "yes", "audit_days": "many"}
    found = loaded(tmp_path, {"mcpServers": {}, "trust": wrong})
    assert found.trust == TrustConfig(approval="ask", pin="hold", audit_required=True)
    assert len(found.errors) == 4
