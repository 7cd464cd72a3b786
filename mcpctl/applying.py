"""Has a running daemon take up a change that this command has made."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from mcpd.errors import DaemonUnavailable, RequestFailed

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.results import Entries, Reloaded
    from mcpd.client.control import Control

ABSENT = ("absent", "refused", "no_socket")
"""Why no daemon answers, where there is none."""


NO_DAEMON = ("absent", "refused")
"""Why there is no daemon that could be asked."""


def daemon(app: App) -> Control | None:
    """Return a connection to the daemon of this state directory, ``None`` where none runs.

    What is kept there is the daemon's that has this directory, whatever ``--socket`` says.
    """
    from mcpd.client.control import Control
    from mcpd.daemon_start import place

    try:
        return app.connect(start=False)
    except DaemonUnavailable as error:
        if error.details.get("why") not in NO_DAEMON:
            raise
    for each in place.others(app.socket):
        if os.path.realpath(each.state_dir) == os.path.realpath(app.state_dir):
            return Control.open(each.socket, start=False)
    return None


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
    except DaemonUnavailable as error:
        if error.details.get("why") not in ABSENT:
            app.note(f"{error.message}; it has not read the change yet")
        return Applied(None)
    except RequestFailed as error:
        app.note(f"the daemon has not read the change: {error.message}")
        return Applied(None)
    return Applied(result["errors"])


def note(app: App, file: str, names: Collection[str] = ()) -> set[str]:
    """Note on stderr what keeps the running daemon from using what was changed.

    That is a file that it does not read, and errors in the entries of ``names``. Returns those
    names.
    """
    try:
        with app.connect(start=False) as control:
            entries: Entries = control.request("mcpd/list", {})
    except DaemonUnavailable:
        return set()
    if file not in entries["files"]:
        app.note(f"the daemon that runs does not read {file}, but {', '.join(entries['files'])}")
    wrong = {
        entry["name"]: entry["error"]
        for entry in entries["servers"]
        if entry["name"] in names and entry["error"] is not None
    }
    for error in wrong.values():
        app.note(app.with_socket(error))
    return set(wrong)
