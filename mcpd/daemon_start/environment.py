"""The environment that a daemon inherits from the client that starts it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EPHEMERAL_PATTERNS = (
    # the terminal, and what draws it
    "TERM", "TERM_*", "TERMINAL_*", "TERMCAP", "COLORTERM", "COLORFGBG", "COLUMNS", "LINES",
    "LC_TERMINAL", "LC_TERMINAL_*", "WINDOWID", "WINDOWPATH", "GPG_TTY", "VTE_VERSION",
    "ALACRITTY_*", "GHOSTTY_*", "GNOME_TERMINAL_*", "ITERM_*", "KITTY_*", "KONSOLE_*", "TILIX_ID",
    "TERMINATOR_*", "WEZTERM_*", "WT_*", "XTERM_*",
    # multiplexers and remote logins; SSH_AUTH_SOCK stays, since servers that run git need it
    "STY", "TMUX", "TMUX_*", "WINDOW", "ZELLIJ", "ZELLIJ_*",
    "SSH_CLIENT", "SSH_CONNECTION", "SSH_ORIGINAL_COMMAND", "SSH_TTY",
    # a shell's bookkeeping, and an editor's that runs it
    "_", "OLDPWD", "PWD", "SHLVL", "SHELL_SESSION_*", "DIRENV_*",
    "INSIDE_EMACS", "NVIM", "NVIM_*", "VIM", "VIMRUNTIME", "VSCODE_*",
    # one start of one program, by a desktop or a service manager
    "DESKTOP_STARTUP_ID", "XDG_ACTIVATION_TOKEN", "INVOCATION_ID", "JOURNAL_STREAM",
    "LISTEN_FD*", "LISTEN_PID*", "MAINPID", "MANAGERPID*", "MEMORY_PRESSURE_*", "NOTIFY_SOCKET",
    "SYSTEMD_EXEC_PID", "WATCHDOG_*",
    # a test run, and our own tag of a server's process
    "PYTEST_*", "MCPD_INSTANCE",
)  # fmt: skip
"""Variables of one terminal or one login, which mean nothing elsewhere; ``*`` ends a pattern.

A daemon that a client starts does not inherit them, and ad-hoc servers that differ only in them
share a process.
"""

RELATIVE_PATHS = ("MCPD_CONFIG", "MCPD_STATE_DIR", "MCPD_SOCKET")
"""Variables whose paths are made absolute, since the daemon's working directory is ``/``."""


def is_ephemeral(name: str) -> bool:
    """Tell whether an environment variable matches ``EPHEMERAL_PATTERNS``."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in EPHEMERAL_PATTERNS
    )


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` as a daemon started by this process inherits it."""
    kept = {name: value for name, value in env.items() if not is_ephemeral(name)}
    for name in RELATIVE_PATHS:
        if kept.get(name):
            kept[name] = os.path.abspath(kept[name])
    return kept
