"""``mcpctl status``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options, render
from mcpd import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpctl.context import App
    from mcpd.api.status import InteractiveStatus, ServerStatus, Status

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
NAMED_WAITERS = 5
"""How many of those who wait for a turn are named."""


@options.command("status", starts=False)
@options.servers
@click.option("--watch", is_flag=True, help="Refresh every second.")
def status_command(app: App, servers: tuple[str, ...], watch: bool) -> None:
    """Show the servers: state, process, sessions, calls and memory.

    Of servers that are named it says more: what they call themselves, who shares them, and
    how their questions are dealt with.

    \b
    mcpctl status
    mcpctl status files --watch
    """
    params = {"servers": list(servers)} if servers else {}
    with app.connect() as control:
        found: Status = control.request("mcpd/status", params)
        while watch:
            _show_again(app, found, bool(servers))
            time.sleep(EVERY_S)
            found = control.request("mcpd/status", params)
        if app.as_json:
            app.document(found)
        else:
            _show(app, found, bool(servers))


def _show_again(app: App, found: Status, is_asked: bool) -> None:
    if app.as_json:
        app.item(found)
        return
    if render.is_terminal(sys.stdout):
        sys.stdout.write(CLEAR)
    _show(app, found, is_asked)
    sys.stdout.flush()


def _show(app: App, found: Status, is_asked: bool) -> None:
    """Print a table and what does not fit into it; ``is_asked``: for these servers alone."""
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
    notes = [
        f"{server['name']}: {note}"
        for server in found["servers"]
        for note in _notes(server, found["servers"], is_asked)
    ]
    if notes:
        app.say("\n" + "\n".join(notes))


def _notes(server: ServerStatus, everybody: list[ServerStatus], is_asked: bool) -> Iterator[str]:
    """Say of a server what the table does not; more where somebody ``is_asked`` about it."""
    if is_asked and server["server_info"] is not None:
        info = server["server_info"]
        tools = "" if server["tools"] is None else f", tools {server['tools']}"
        yield f"it is {info.get('title') or info.get('name')} {info.get('version')}{tools}"
    if server["sharing_reason"]:
        yield f"sharing {server['sharing']}: {server['sharing_reason']}"
    elif is_asked:
        yield f"sharing {server['sharing']}"
    if _is_gone(server) and server["pid"] is not None:
        others = [each["name"] for each in everybody if each["pid"] == server["pid"]]
        others.remove(server["name"])
        yield f"its process, pid {server['pid']}, goes on for {', '.join(others) or 'others'}"
    interactive = server.get("interactive")
    if interactive is not None:
        if is_asked:
            asks = "it asks" if interactive["asks"] else "it has not asked any yet"
            yield f"questions {interactive['mode']}: {asks}"
        queue = queue_text(interactive)
        if queue and (is_asked or interactive["waiting"]):
            yield queue


def queue_text(interactive: InteractiveStatus) -> str | None:
    """Say who has the turn and who waits for it; ``None`` where nobody has or does."""
    turn, waiting = interactive["turn"], interactive["waiting"]
    whose = "" if turn is None else f"session {turn['session']}"
    since = "" if turn is None else f"has had the turn for {render.duration(turn['since_s'])}"
    if not waiting:
        return f"{whose} {since}" if turn is not None else None
    who = "1 session waits" if len(waiting) == 1 else f"{len(waiting)} sessions wait"
    which = f"{whose}, which {since}" if turn is not None else "a turn"
    named = [f"{w['session']} for {render.duration(w['for_s'])}" for w in waiting[:NAMED_WAITERS]]
    named += ["…"] if len(waiting) > NAMED_WAITERS else []
    return f"{who} for {which} ({', '.join(named)})"


def _is_gone(server: ServerStatus) -> bool:
    """Tell whether a server has no process of its own: one that shares its launch may have."""
    return server["state"] == "stopped"


def _rows(server: ServerStatus) -> list[list[render.Cell]]:
    state = server["state"] + (" (held)" if server.get("held") else "")
    is_gone = _is_gone(server)
    rows: list[list[render.Cell]] = [
        [
            server["name"],
            (state, COLOURS.get(server["state"], "dim")),
            render.era(server["era"], server["protocol_version"]),
            _or_dash(None if is_gone else server["pid"]),
            render.duration(None if is_gone else server["uptime_s"]),
            str(server["restarts"]),
            str(server["sessions"]),
            str(server["in_flight"]),
            str(server["calls"]),
            str(server["errors"]),
            render.size(None if is_gone else server["rss_bytes"]),
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
