"""``mcpctl status``."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options, render
from mcpd import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mcpctl.context import App
    from mcpd.api.status import (
        InstanceStatus,
        InteractiveStatus,
        ServerStatus,
        SessionStatus,
        Status,
        TurnStatus,
    )

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
SPARE = [
    "LAST ERROR", "ERA", "RESTARTS", "ERRORS", "IN FLIGHT", "PID", "CALLS", "MEMORY", "SESSIONS",
]  # fmt: skip
"""Columns that a narrow terminal does without, the first of them first."""

SILENT_FROM_S = 30
"""A server that owes an answer and has said nothing for so long is told so."""

NAMED_SESSIONS = 10
"""How many of those who are attached to a server are named."""

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
            control.check()  # it may hang by now, and the next answer would be waited for for ever
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
    sessions = "1 session" if daemon["sessions"] == 1 else f"{daemon['sessions']} sessions"
    app.say(
        f"mcpd {daemon['version']}, pid {daemon['pid']}, up {render.duration(daemon['uptime_s'])}, "
        f"{sessions}, {daemon['socket']}"
    )
    if daemon["version"] != __version__:
        remedy = app.addressed("after an upgrade: mcpctl restart --daemon")
        app.note(f"this is mcpctl {__version__}; {remedy}")
    for problem in daemon.get("problems", ()):
        app.note(f"{problem}; {app.addressed('mcpctl doctor')}")
    if not found["servers"]:
        app.say(app.addressed("no servers; to see which files are read: mcpctl list"))
        return
    app.say("")
    for server in found["servers"]:
        if server["last_error"] is not None:
            server["last_error"] = app.addressed(server["last_error"])
    rows = [row for server in found["servers"] for row in _rows(server)]
    left_out = render.lacking(HEADER, rows, sys.stdout, SPARE)
    app.table(*render.without(HEADER, rows, left_out))
    notes = [
        f"{server['name']}: {note}"
        for server in found["servers"]
        for note in (
            *_notes(server, found["servers"], is_asked, left_out),
            *(_sessions(server["name"], daemon.get("clients", ())) if is_asked else ()),
        )
    ]
    if notes:
        app.say("\n" + app.addressed("\n".join(map(render.one_line, notes))))
    narrow = [name for name in left_out if name != SPARE[0]]
    if narrow and not is_asked:
        remedy = app.addressed("mcpctl status SERVER")
        app.say(f"\nno room for {', '.join(narrow)}: {remedy}, or a wider terminal")


def _notes(
    server: ServerStatus, everybody: list[ServerStatus], is_asked: bool, left_out: Collection[str]
) -> Iterator[str]:
    """Say of a server what the table does not; more where somebody ``is_asked`` about it."""
    yield from _trouble(server)
    error = _last_error(server)
    if error and (is_asked or "LAST ERROR" in left_out):
        yield error
    if is_asked:
        yield from _details(server)
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


def _sessions(server: str, clients: Collection[SessionStatus]) -> Iterator[str]:
    """Say who is attached to a server, those of one name as one."""
    names = Counter(each["client"] or "no name" for each in clients if each["server"] == server)
    if names:
        told = [name if count == 1 else f"{name} ({count} times)" for name, count in names.items()]
        more = [f"and {len(told) - NAMED_SESSIONS} more"] if len(told) > NAMED_SESSIONS else []
        yield f"attached: {', '.join(told[:NAMED_SESSIONS] + more)}"


def _trouble(server: ServerStatus) -> Iterator[str]:
    """Say what is wrong with a server whose process lives."""
    stopped = server.get("stopped_pids")
    if stopped:
        pids = " ".join(map(str, stopped))
        which = (
            "a process of it is" if len(stopped) == 1 else f"{len(stopped)} of its processes are"
        )
        yield (
            f"unresponsive: {which} stopped by a signal; to let it go on: kill -CONT {pids}, "
            f"or: mcpctl restart {server['name']}"
        )
    elif (silent := _silence(server)) is not None:
        yield f"{silent}, and owes an answer since; if it is stuck: mcpctl restart {server['name']}"
    if server.get("noise"):
        reason = server.get("noise_reason")
        yield (
            f"{server['noise']} lines on its stdout were no messages of MCP"
            f"{f' ({reason})' if reason else ''}; to see them: mcpctl logs {server['name']}"
        )


def _details(server: ServerStatus) -> Iterator[str]:
    """Say of a server what somebody who asks for it alone may want to know."""
    if server["server_info"] is not None:
        info = server["server_info"]
        named = [info.get("title") or info.get("name"), info.get("version")]
        told = " ".join(part for part in named if isinstance(part, str)) or "without a name"
        tools = "" if server["tools"] is None else f", {server['tools']} tools"
        yield f"it is {told}{tools}"
    if server["era"] is not None:
        yield f"speaks {render.era(server['era'], server['protocol_version'])}"
    if server["pids"]:
        tree = "" if len(server["pids"]) == 1 else f" (a tree of {len(server['pids'])})"
        yield (
            f"process {' '.join(map(str, server['pids']))}{tree}, "
            f"generation {server['generation']}, restarts {server['restarts']}"
        )
    if server.get("left_out"):
        yield f"it is not told of {', '.join(server['left_out'])}, which it refuses"
    yield (
        f"calls {server['calls']}, failed {server['errors']}, in flight {server['in_flight']}, "
        f"sessions {server['sessions']}"
    )


def _silence(server: ServerStatus) -> str | None:
    silent_s = server.get("silent_s")
    if silent_s is None or silent_s < SILENT_FROM_S or "starting" in server:
        return None  # of a start its time says it all
    return f"silent for {render.duration(silent_s)}"


def _last_error(server: ServerStatus) -> str:
    """Return the last error with its time, less the server's name, which stands beside it."""
    text = server["last_error"]
    if text is None:
        return ""
    text = render.one_line(text).removeprefix(f"{server['name']} ")
    at = server.get("last_error_at")
    return text if at is None else f"{text}, {render.moment(at)}"


def queue_text(interactive: InteractiveStatus) -> str | None:
    """Say who has the turn and who waits for it; ``None`` where nobody has or does."""
    turn, waiting = interactive["turn"], interactive["waiting"]
    whose = "" if turn is None else _whose(turn)
    since = "" if turn is None else f"has had the turn for {render.duration(turn['since_s'])}"
    if not waiting:
        return f"{whose} {since}" if turn is not None else None
    who = "1 session waits" if len(waiting) == 1 else f"{len(waiting)} sessions wait"
    which = f"{whose}, which {since}" if turn is not None else "a turn"
    first = waiting[:NAMED_WAITERS]
    named = [f"{w.get('client') or w['session']} for {render.duration(w['for_s'])}" for w in first]
    named += ["…"] if len(waiting) > NAMED_WAITERS else []
    return f"{who} for {which} ({', '.join(named)})"


def _whose(turn: TurnStatus) -> str:
    session = f"session {turn['session']}"
    client = turn.get("client")
    return session if client is None else f"{client} ({session})"


def state_text(one: ServerStatus | InstanceStatus) -> str:
    """Say what state a server is in, and of one that starts how long and why perhaps."""
    starting = one.get("starting")
    if one["state"] != "starting" or starting is None:
        return one["state"]
    if starting["for_s"] is None:
        return "starting (queued)"
    since = render.duration(starting["for_s"])
    return f"starting (installing?) {since}" if starting["installing"] else f"starting {since}"


def _processes_text(server: ServerStatus) -> str | None:
    """Say how many processes a server has that has one for each session or workspace."""
    running = sum(one["pid"] is not None for one in server.get("instances", ()))
    return f"per {server['sharing']} ({running})" if running else None


def _is_gone(server: ServerStatus) -> bool:
    """Tell whether a server has no process of its own: one that shares its launch may have."""
    return server["state"] == "stopped"


def _rows(server: ServerStatus) -> list[list[render.Cell]]:
    is_gone = _is_gone(server)
    state, colour = state_text(server), COLOURS.get(server["state"], "dim")
    if server.get("responsive") is False and not is_gone:
        state, colour = "unresponsive", "red"
    elif _silence(server) is not None:
        state, colour = f"{state}, silent", "yellow"
    elif server["state"] == "ready":
        state = _processes_text(server) or state
    elif server.get("held"):
        state += " (held)"
    rows: list[list[render.Cell]] = [
        [
            server["name"],
            (state, colour),
            render.era(server["era"], server["protocol_version"]),
            _or_dash(None if is_gone else server["pid"]),
            render.duration(None if is_gone else server["uptime_s"]),
            str(server["restarts"]),
            str(server["sessions"]),
            str(server["in_flight"]),
            str(server["calls"]),
            str(server["errors"]),
            render.size(None if is_gone else server["rss_bytes"]),
            _last_error(server),
        ]
    ]
    for one in server.get("instances") or ():
        state, colour = state_text(one), COLOURS.get(one["state"], "dim")
        if one.get("responsive") is False:
            state, colour = "unresponsive", "red"
        rows.append(
            [
                f"  {one['key'] or 'shared'}",
                (state, colour),
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
