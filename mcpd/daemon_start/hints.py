"""Commands that hints tell people to type, complete with socket and configuration."""

from __future__ import annotations

import os
import shlex


def with_socket(hint: str, socket: str | None) -> str:
    """Return ``hint`` with ``--socket`` in its commands, if the command line named ``socket``.

    Without the option they would reach, or start, the daemon of another socket.
    """
    if socket is None:
        return hint
    import re

    option = f"--socket {shlex.quote(os.path.abspath(socket))} "
    return re.sub(r"\b(?:mcpctl (?=[a-z])|mcpd (?=--log-level ))", lambda at: at[0] + option, hint)


def check_command(config: str | None) -> str:
    """Return the command that checks what a daemon with ``--config CONFIG`` reads."""
    file = config or os.environ.get("MCPD_CONFIG")
    return f"mcpd --config {shlex.quote(os.path.abspath(file))} --check" if file else "mcpd --check"
