"""``mcpctl status``."""

from __future__ import annotations

import shlex
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
REFRESH_S = 1.0
COLOURS = {
    "ready": "green", "starting": "yellow", "backoff": "yellow", "stopping": "yellow",
    "login": "yellow", "untrusted": "yellow",
    "failed": "red", "misconfigured": "red", "stopped": "dim", "disabled": "dim",
}  # fmt: skip
CLEAR = "\x1b[H\x1b[J"
HIDEABLE = [
    "LAST ERROR", "ERA", "RESTARTS", "ERRORS", "IN FLIGHT", "PID", "CALLS", "MEMORY", "SESSIONS",
]  # fmt: skip
"""Columns that are left out on a narrow terminal, in this order."""

SILENT_FROM_S = 30
"""Silence of a server with a request in flight after which it is shown as silent."""

NAMED_SESSIONS = 10
"""The most attached clients that are named for a server."""

NAMED_WAITERS = 5
"""The most waiting sessions that are named for a server."""


@options.command("status", starts=False)
@options.servers
@click.option("--watch", is_flag=True, help="Refresh every second.")
def status_command(app: App, servers: tuple[str, ...], watch: bool) -> None:
    """Show the servers: state, process, sessions, calls and memory.

    With SERVER, it shows more: name and version, how it is shared, attached clients, and
    how its questions to clients are handled.

    \b
    mcpctl status
    mcpctl status files --watch
    """
    params = {"servers": list(servers)} if servers else {}
    with app.connect() as control:
        found: Status = control.request("mcpd/status", params)
        while watch:
            _refresh(app, found, bool(servers))
            time.sleep(REFRESH_S)
            control.check()  # raises for a daemon that hangs, instead of waiting for ever
            found = control.request("mcpd/status", params)
        if app.as_json:
            app.print_document(found)
        else:
            _show(app, found, bool(servers))


def _refresh(app: App, found: Status, is_detailed: bool) -> None:
    if app.as_json:
        app.print_item(found)
        return
    if render.is_terminal(sys.stdout):
        sys.stdout.write(CLEAR)
    _show(app, found, is_detailed)
    sys.stdout.flush()


def _show(app: App, found: Status, is_detailed: bool) -> None:
    """Print the table and notes below it; ``is_detailed``: servers were named."""
    daemon = found["daemon"]
    sessions = "1 session" if daemon["sessions"] == 1 else f"{daemon['sessions']} sessions"
    app.print(
        f"mcpd {daemon['version']}, pid {daemon['pid']}, up {render.duration(daemon['uptime_s'])}, "
        f"{sessions}, {daemon['socket']}"
    )
    if daemon["version"] != __version__:
        remedy = app.with_socket("after an upgrade: mcpctl restart --daemon")
        app.note(f"this is mcpctl {__version__}; {remedy}")
    if daemon.get("http"):
        app.print_line(f"HTTP on {', '.join(daemon['http'])}")
    for problem in daemon.get("problems", ()):
        app.note(f"{problem}; {app.with_socket('mcpctl doctor')}")
    for other in daemon.get("others", ()):
        where = shlex.quote(other["socket"])
        app.note(
            f"another mcpd of yours runs, pid {other['pid']}, on {other['socket']}, with servers "
            f"of its own; if that is not meant: mcpctl --socket {where} down"
        )
    if daemon.get("approvals_open"):
        asked = daemon["approvals_open"]
        what = "1 call is asked about" if asked == 1 else f"{asked} calls are asked about"
        app.print(app.with_socket(f"{what}: mcpctl approvals"))
    if not found["servers"]:
        app.print(app.with_socket("no servers; to see which files are read: mcpctl list"))
        return
    app.print("")
    for server in found["servers"]:
        if server["last_error"] is not None:
            server["last_error"] = app.with_socket(server["last_error"])
    rows = [row for server in found["servers"] for row in _rows(server)]
    left_out = render.columns_to_hide(HEADER, rows, sys.stdout, HIDEABLE)
    app.print_table(*render.hide_columns(HEADER, rows, left_out))
    notes = [
        f"{server['name']}: {note}"
        for server in found["servers"]
        for note in (
            *_notes(server, found["servers"], is_detailed, left_out),
            *(_sessions(server["name"], daemon.get("clients", ())) if is_detailed else ()),
        )
    ]
    notes += _projects(found["servers"])
    if notes:
        app.print("\n" + app.with_socket("\n".join(map(render.one_line, notes))))
    narrow = [name for name in left_out if name != HIDEABLE[0]]
    if narrow and not is_detailed:
        remedy = app.with_socket("mcpctl status SERVER")
        app.print(f"\nno room for {', '.join(narrow)}: {remedy}, or a wider terminal")


def _notes(
    server: ServerStatus, servers: list[ServerStatus], is_detailed: bool, left_out: Collection[str]
) -> Iterator[str]:
    """Yield notes on a server that the table does not show."""
    yield from _problems(server)
    yield from _definitions(server)
    error = _last_error(server)
    if error and (is_detailed or "LAST ERROR" in left_out):
        yield error
    if is_detailed:
        yield from _details(server)
    if server["sharing_reason"]:
        yield f"sharing {server['sharing']}: {server['sharing_reason']}"
    elif is_detailed:
        yield f"sharing {server['sharing']}"
    if _is_gone(server) and server["pid"] is not None:
        others = [each["name"] for each in servers if each["pid"] == server["pid"]]
        others.remove(server["name"])
        yield f"its process, pid {server['pid']}, goes on for {', '.join(others) or 'others'}"
    interactive = server.get("interactive")
    if interactive is not None:
        if is_detailed:
            asks = "it asks" if interactive["asks"] else "it has not asked any yet"
            yield f"questions {interactive['mode']}: {asks}"
        queue = queue_text(interactive)
        if queue and (is_detailed or interactive["waiting"]):
            yield queue


def _projects(servers: Collection[ServerStatus]) -> Iterator[str]:
    """Yield what waits in projects until a person trusts it."""
    waiting: dict[str, list[str]] = {}
    for server in servers:
        if server["state"] == "untrusted":
            directory = server.get("project", "")
            local = server["name"].removesuffix(f"@{directory}")
            waiting.setdefault(directory, []).append(local)
    for directory, names in waiting.items():
        typed = shlex.join(["mcpctl", "trust", directory])
        yield (
            f"{', '.join(names)} of the project in {directory} will run once you trust what it "
            f"says; to see it: {typed}"
        )


def _sessions(server: str, clients: Collection[SessionStatus]) -> Iterator[str]:
    """Yield the clients attached to a server, grouped by name."""
    names = Counter(each["client"] or "no name" for each in clients if each["server"] == server)
    if names:
        told = [name if count == 1 else f"{name} ({count} times)" for name, count in names.items()]
        more = [f"and {len(told) - NAMED_SESSIONS} more"] if len(told) > NAMED_SESSIONS else []
        yield f"attached: {', '.join(told[:NAMED_SESSIONS] + more)}"


def _problems(server: ServerStatus) -> Iterator[str]:
    """Yield what is wrong with a running server."""
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


def _definitions(server: ServerStatus) -> Iterator[str]:
    """Yield what differs from what was approved, and what was found."""
    trust = server.get("trust")
    if trust is None:
        return
    told = [f"{trust[what]} {what}" for what in ("changed", "held") if trust[what]]
    if told:
        names = trust.get("waiting", [])
        which = f" ({render.revealed(', '.join(names))})" if names else ""
        yield f"definitions: {', '.join(told)}{which}; mcpctl pins diff {server['name']}"
    if trust["findings"]:
        yield f"{trust['findings']} findings in its definitions; mcpctl inspect {server['name']}"


def _details(server: ServerStatus) -> Iterator[str]:
    """Yield the details of a server that is named on the command line."""
    if server["server_info"] is not None:
        info = server["server_info"]
        named = [info.get("title") or info.get("name"), info.get("version")]
        told = " ".join(part for part in named if isinstance(part, str)) or "without a name"
        tools = "" if server["tools"] is None else f", {server['tools']} tools"
        yield f"it is {told}{tools}"
    if server["era"] is not None:
        yield f"speaks {render.era(server['era'], server['protocol_version'])}"
    if "url" in server:
        latency_ms = server.get("latency_ms")
        latency = "" if latency_ms is None else f", answers in {latency_ms:g} ms"
        yield f"at {server['url']} ({server['transport']}), auth {server.get('auth')}{latency}"
        yield f"connection {server['generation']}, restarts {server['restarts']}"
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
        return None  # a start shows its duration instead
    return f"silent for {render.duration(silent_s)}"


def _last_error(server: ServerStatus) -> str:
    """Return the last error with its time, without the server's name."""
    text = server["last_error"]
    if text is None:
        return ""
    name = server["name"]
    text = render.one_line(text).removeprefix(f"{name} ").removeprefix(f"{name}: ")
    at = server.get("last_error_at")
    return text if at is None else f"{text}, {render.moment(at)}"


def queue_text(interactive: InteractiveStatus) -> str | None:
    """Return which session has the turn and which ones wait, ``None`` if none does."""
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
    """Return the state of a server, for a start with how long it has taken."""
    starting = one.get("starting")
    if one["state"] != "starting" or starting is None:
        return one["state"]
    if starting["for_s"] is None:
        return "starting (queued)"
    since = render.duration(starting["for_s"])
    return f"starting (installing?) {since}" if starting["installing"] else f"starting {since}"


def _processes_text(server: ServerStatus) -> str | None:
    """Return the number of processes of a server that has one for each session or workspace."""
    running = sum(one["pid"] is not None for one in server.get("instances", ()))
    return f"per {server['sharing']} ({running})" if running else None


def _is_gone(server: ServerStatus) -> bool:
    """Return whether a server is stopped; its process may go on for another entry."""
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
