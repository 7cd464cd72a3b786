"""A container that a server's process may have started, as the ledger records it.

Standard library only: the guardian loads this.
"""

from __future__ import annotations

from typing import NamedTuple


class Container(NamedTuple):
    """What a server's process may have had an engine run, and how to reach that engine."""

    argv: tuple[str, ...]
    """The engine's program, an absolute path, and its options up to the command."""
    label: str
    """A label ``NAME=VALUE`` that no other container has."""
    cidfile: str
    """The absolute path of the file with its id, which is not there before the container is;
    empty without one."""
    is_ours: bool
    """Whether that file was made for us, and is to be removed."""
    removes: bool
    """Whether the engine was told to remove the container when it ends."""
    env: tuple[tuple[str, str], ...]
    """The variables that say where the engine is; nothing else, so no secrets."""
    cwd: str
