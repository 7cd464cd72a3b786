"""``mcpctl status``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options, render
from mcpd import __version__

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.status import ServerStatus, Status

HEADER = [
    "SERVER", "STATE", "ERA", "PID", "UP", "RESTARTS", "SESSIONS", "IN FLIGHT", "CALLS", "ERRORS",
    "MEMORY", "LAST ERROR",
]  # fmt: skip
EVERY_S = 1.0
COLOURS = {
    "ready": "green", "starting": "yellow", "backoff": "yellow", "stopping": "yellow",
    "failed": "red", "misconfigured": "red", "stopped": "dim", "disabled": "dim",
}  # fmt: skip
CLEAR = "\x1b[H\x1b[J"


@options.command("status", starts=False)
@options.servers
@click.option("--watch", is_flag=True, help="Refresh every second.")
def status_command(app: App, servers: tuple[str, ...], watch: bool) -> None:
    """Show the servers: state, process, sessions, calls and memory.

    \b
    mcpctl status
    mcpctl status files --watch
    """
    params = {"servers": list(servers)} if servers else {}
    with app.connect() as control:
        found: Status = control.request("mcpd/status", params)
        while watch:
            _show_again(app, found)
            time.sleep(EVERY_S)
            found = control.request("mcpd/status", params)
        if app.as_json:
            app.document(found)
        else:
            _show(app, found)


def _show_again(app: App, found: Status) -> None:
    if app.as_json:
        app.item(found)
        return
    if render.is_terminal(sys.stdout):
        sys.stdout.write(CLEAR)
    _show(app, found)
    sys.stdout.flush()


def _show(app: App, found: Status) -> None:
    daemon = found["daemon"]
    app.say(
        f"mcpd {daemon['version']}, pid {daemon['pid']}, up {render.duration(daemon['uptime_s'])}, "
        f"sessions {daemon['sessions']}, {daemon['socket']}"
    )
    if daemon["version"] != __version__:
        app.note(f"this is mcpctl {__version__}; after an upgrade: mcpctl restart --daemon")
    if not found["servers"]:
        app.say("no servers; to see which files are read: mcpctl list")
        return
    app.say("")
    app.table(HEADER, [row for server in found["servers"] for row in _rows(server)])
    for server in found["servers"]:
        if server.get("sharing_reason"):
            app.say(f"{server['name']}: sharing {server['sharing']}: {server['sharing_reason']}")


def _rows(server: ServerStatus) -> list[list[render.Cell]]:
    state = server["state"] + (" (held)" if server.get("held") else "")
    rows: list[list[render.Cell]] = [
        [
            server["name"],
            (state, COLOURS.get(server["state"], "dim")),
            _or_dash(server["era"]),
            _or_dash(server["pid"]),
            render.duration(server["uptime_s"]),
            str(server["restarts"]),
            str(server["sessions"]),
            str(server["in_flight"]),
            str(server["calls"]),
            str(server["errors"]),
            render.size(server["rss_bytes"]),
            server["last_error"] or "",
        ]
    ]
    for one in server.get("instances") or ():
        state = one["state"]
        rows.append(
            [
                f"  {one['key']}",
                (state, COLOURS.get(state, "dim")),
                "",
                _or_dash(one["pid"]),
                render.duration(one["uptime_s"]),
                "",
                str(one["sessions"]),
                *("", "", ""),
                render.size(one["rss_bytes"]),
                "",
            ]
        )
    return rows


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)
