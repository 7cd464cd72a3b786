"""``mcpctl list`` and ``reload``: the configuration as the daemon has read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpctl import exits, options, render

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.messages import Entries, Entry, Reloaded
    from mcpd.api.status import Status


@options.command("list", starts=False)
def list_command(app: App) -> None:
    """List the configured servers, and the files they come from.

    \b
    mcpctl list
    """
    with app.connect() as control:
        answer = control.exchange("mcpd/list", {})
        if app.as_json:
            app.document(answer.value, answer.text)
            return
        status: Status = control.request("mcpd/status", {})
    found: Entries = answer.value
    if found["servers"]:
        eras = {
            server["name"]: render.era(server["era"], server["protocol_version"])
            for server in status["servers"]
        }
        rows = [_row(one, eras.get(one["name"], "-")) for one in found["servers"]]
        app.table(["SERVER", "ENABLED", "ERA", "FROM", "COMMAND"], rows)
    else:
        app.say("no servers are configured; the files that are read:")
        for file in found["files"]:
            app.say(f"  {file}")
    for error in found["errors"]:
        app.note(error)


@options.command("reload", starts=False)
def reload_command(app: App) -> int:
    """Read the configuration again; only what changed is touched.

    \b
    mcpctl reload
    """
    with app.connect() as control, app.waiting("reloading") as on_wait:
        result: Reloaded = control.request("mcpd/reload", {}, on_wait=on_wait)
    if app.as_json:
        app.document(result)
    else:
        changes = [("added", result["added"]), ("removed", result["removed"])]
        changes.append(("changed", result["changed"]))
        told = [f"{what} {', '.join(names)}" for what, names in changes if names]
        app.say("; ".join(told) or _unchanged(result))
        for error in result["errors"]:
            app.note(error)
    return exits.USAGE if result["errors"] else exits.DONE


def _unchanged(result: Reloaded) -> str:
    if not result.get("applied", True):
        return "nothing of it is in force: the daemon goes on with what it had"
    if result["errors"]:
        return "nothing else has changed since it was last read"
    return "nothing has changed since it was last read"


def _row(entry: Entry, era: str) -> list[render.Cell]:
    line = entry.get("line")
    config = entry["config"] or {}
    command = " ".join([str(config.get("command", "")), *map(str, config.get("args") or ())])
    return [
        entry["name"],
        "yes" if entry["enabled"] else "no",
        era,
        entry["file"] if line is None else f"{entry['file']}:{line}",
        entry["error"] or command,
    ]
