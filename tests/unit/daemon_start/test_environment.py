"""Which variables a daemon inherits."""

from __future__ import annotations

import os

import pytest

from mcpd.daemon_start.environment import clean_environment, is_ephemeral
from mcpd.service import activation, notify


def test_what_a_service_manager_means_for_the_daemon_tells_no_servers_apart() -> None:
    assert all(map(is_ephemeral, (*notify.MANAGERS, *activation.VARIABLES)))


def test_relative_paths_of_the_environment_become_absolute() -> None:
    clean = clean_environment({"MCPD_CONFIG": "x.toml", "MCPD_STATE_DIR": ""})
    assert clean == {"MCPD_CONFIG": os.path.abspath("x.toml"), "MCPD_STATE_DIR": ""}


@pytest.mark.parametrize(
    "name", ["TERM", "TERM_PROGRAM", "TMUX", "SSH_TTY", "_", "VSCODE_PID", "LISTEN_FDS"]
)
def test_what_belongs_to_one_terminal_is_ephemeral(name: str) -> None:
    assert is_ephemeral(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "SSH_AUTH_SOCK", "TERMS", "LANG", "MCPD_SOCKET"])
def test_what_servers_may_need_is_kept(name: str) -> None:
    """
    B031, B032: a server sees the environment that a shell's would.
    """
    assert not is_ephemeral(name)
