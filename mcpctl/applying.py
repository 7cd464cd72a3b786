"""Has a running daemon take up a change of the configuration that this command has made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpd.errors import DaemonUnavailable

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.results import Entries, Reloaded


class Applied:
    """Whether the running daemon has a change."""

    def __init__(self, errors: list[str] | None) -> None:
        self.is_applied = errors is not None
        """Whether a daemon runs, and has read the configuration again."""
        self.errors = errors or []
        """All errors of the configuration, as it found them."""


def reload(app: App) -> Applied:
    """Have the daemon, if one runs, read the configuration again; return when it has."""
    try:
        with app.connect(start=False) as control:
            result: Reloaded = control.request("mcpd/reload", {})
    except DaemonUnavailable:
        return Applied(None)
    return Applied(result["errors"])


def note_other_files(app: App, file: str) -> None:
    """Note on stderr if the running daemon does not read a file that was changed."""
    try:
        with app.connect(start=False) as control:
            entries: Entries = control.request("mcpd/list", {})
    except DaemonUnavailable:
        return
    if file not in entries["files"]:
        app.note(f"the daemon that runs does not read {file}, but {', '.join(entries['files'])}")
