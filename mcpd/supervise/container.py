"""A container that a server's process may have started, as the ledger records it.

Standard library only: the guardian loads this.
"""

from __future__ import annotations

from typing import NamedTuple


class Container(NamedTuple):
    """A container that a server's command may have started, and how to reach its engine."""

    argv: tuple[str, ...]
    """The engine's program, an absolute path, and its options up to the command."""
    label: str
    """A label ``NAME=VALUE`` that no other container has."""
    cidfile: str
    """The absolute path of the file that will hold its id once it exists; empty without one."""
    is_ours: bool
    """Whether that file is ours, so that we remove it."""
    removes: bool
    """Whether the engine was told to remove the container when it ends."""
    env: tuple[tuple[str, str], ...]
    """The variables that locate the engine; no others, so no secrets."""
    cwd: str
