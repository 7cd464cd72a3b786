"""``mcpctl list`` and ``reload``: the configuration as the daemon has read it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from mcpctl import options, render
from mcpd import exits, paths

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.results import Entries, Entry, Reloaded
    from mcpd.api.status import Status

HEADER = ["SERVER", "ENABLED", "ERA", "FROM", "COMMAND"]
HIDEABLE = ["ERA", "ENABLED"]
"""Columns that are left out on a narrow terminal, in this order."""

FILES_SHARE = 3
"""FROM takes at most one part in this many of the width."""

MASK = "***"
"""What the daemon sends in place of a secret."""


@options.command("list", starts=False)
def list_command(app: App) -> None:
    """List the configured servers and the files they come from.

    \b
    mcpctl list
    """
    with app.connect() as control:
        answer = control.exchange("mcpd/list", {})
        if app.as_json:
            app.print_document(answer.value, answer.text)
            return
        status: Status = control.request("mcpd/status", {})
    found: Entries = answer.value
    if found["servers"]:
        eras = {
            server["name"]: render.era(server["era"], server["protocol_version"])
            for server in status["servers"]
        }
        _table(app, [_row(one, eras.get(one["name"], "-")) for one in found["servers"]])
    else:
        app.print("no servers are configured; the files that are read:")
        for file in found["files"]:
            app.print(f"  {file}")
    for error in found["errors"]:
        app.note(app.with_socket(error))


@options.command("reload", starts=False)
def reload_command(app: App) -> int:
    """Read the configuration again and apply what has changed.

    \b
    mcpctl reload
    """
    with app.connect() as control, app.waiting("reloading") as on_wait:
        result: Reloaded = control.request("mcpd/reload", {}, on_wait=on_wait)
    if app.as_json:
        app.print_document(result)
    else:
        changes = [("added", result["added"]), ("removed", result["removed"])]
        changes.append(("changed", result["changed"]))
        told = [f"{what} {', '.join(names)}" for what, names in changes if names]
        app.print_line("; ".join(told) or _unchanged(result))
        for error in result["errors"]:
            app.note(app.with_socket(error))
    return exits.USAGE if result["errors"] else exits.DONE


def _unchanged(result: Reloaded) -> str:
    if not result.get("applied", True):
        return "what the files say now is not in force: the daemon goes on with what it had"
    if result["errors"]:
        return "nothing else has changed since it was last read"
    return "nothing has changed since it was last read"


def _table(app: App, rows: list[list[render.Cell]]) -> None:
    """Print the table; on a narrow terminal, cut the names of files and leave out columns."""
    room = render.width_of(sys.stdout)
    if room is not None:
        at = HEADER.index("FROM")
        for row in rows:
            row[at] = render.cut_head(str(row[at]), max(room // FILES_SHARE, render.MIN_COLUMN))
    measured = [[*row[:-1], render.cut(str(row[-1]), render.MIN_COLUMN)] for row in rows]
    left_out = render.columns_to_hide(HEADER, measured, sys.stdout, HIDEABLE)
    app.print_table(*render.hide_columns(HEADER, rows, left_out))


def _row(entry: Entry, era: str) -> list[render.Cell]:
    line = entry.get("line")
    config = entry["config"] or {}
    words = [config.get("command", ""), *(config.get("args") or ())]
    command = config.get("url") or " ".join(map(_word, words))
    file = entry["file"]
    home = paths.home().rstrip("/") + "/"
    if file.startswith(home):
        file = f"~/{file.removeprefix(home)}"
    return [
        entry["name"],
        "yes" if entry["enabled"] else "no",
        era,
        file if line is None else f"{file}:{line}",
        "an error, see below" if entry["error"] else command,
    ]


def _word(text: str) -> str:
    """Quote a word for a shell, except for ``${VAR}`` and secrets, as ``mcpd --check`` does."""
    bare = text.replace("${", "").replace("}", "")
    is_plain = "${" in text and shlex.quote(bare) == bare
    return text if is_plain or text == MASK else shlex.quote(text)
