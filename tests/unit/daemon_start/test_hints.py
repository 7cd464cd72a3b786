"""Commands in hints name the socket and the configuration."""

from __future__ import annotations

import pytest

from mcpd.daemon_start.hints import check_command, with_socket


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mcpctl up", "mcpctl --socket '/a b' up"),
        (
            "mcpctl down --force, then: `mcpctl up`",
            "mcpctl --socket '/a b' down --force, then: `mcpctl --socket '/a b' up`",
        ),
        ("run it: mcpd --log-level debug", "run it: mcpd --socket '/a b' --log-level debug"),
        ("mcpd --check", "mcpd --check"),
        ("mcpctl --socket /c down", "mcpctl --socket /c down"),
        ("this is mcpctl 1.0", "this is mcpctl 1.0"),
    ],
)
def test_commands_go_to_the_socket_that_was_named(text: str, told: str) -> None:
    assert with_socket(text, "/a b") == told
    assert with_socket(text, None) == text


def test_the_command_that_checks_names_the_file_that_is_read_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MCPD_CONFIG", raising=False)
    assert check_command(None) == "mcpd --check"
    monkeypatch.setenv("MCPD_CONFIG", "/etc/a.json")
    assert check_command(None) == "mcpd --config /etc/a.json --check"
    assert check_command("/b.toml") == "mcpd --config /b.toml --check"
