"""``mcpctl up``, ``down`` and ``restart --daemon``."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options
from mcpd import __version__, daemon_process, paths
from mcpd.daemon_start import connection, unavailable
from mcpd.daemon_start.search import Search
from mcpd.errors import DaemonUnavailable

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Control

END_TIMEOUT_S = 120.0
"""A daemon that ends waits for calls, then for its servers, each for its own grace."""

POLL_S = 1.0
"""Between two checks whether the daemon was stopped by a signal."""


@options.command("up", starts=True)
def up_command(app: App) -> None:
    """Start the daemon in the background, unless one runs.

    \b
    mcpctl up
    mcpctl --config ./mcp.json up
    """
    bring_up(app)


@options.command("down", starts=False)
@click.option("--force", is_flag=True, help="Kill it if it does not respond.")
def down_command(app: App, force: bool) -> None:
    """Stop the daemon and its servers; return when they are gone.

    \b
    mcpctl down
    """
    pid = bring_down(app, force=force)
    if app.as_json:
        app.print_document({"stopped": pid})
    else:
        app.print("no daemon runs" if pid is None else f"mcpd is down (it was pid {pid})")


def bring_up(app: App) -> None:
    """Start a daemon unless one runs, and report which one runs."""
    try:
        control, is_new = app.connect(start=False), False
    except DaemonUnavailable as error:
        if not (app.may_start and connection.can_start(error)):
            raise
        control, is_new = app.connect(), True
    with control:
        if not is_new:
            app.compare_config(control)
        hello: dict[str, Any] = {**control.hello, "socket": app.socket}
        if app.as_json:
            app.print_document({"daemon": hello})
            return
        what = "is up" if is_new else "is up already"
        app.print(f"mcpd {hello['version']} {what}: pid {hello['pid']}, {app.socket}")
        wrong = len(control.request("mcpd/list", {})["errors"])
        if wrong:
            errors = "1 error" if wrong == 1 else f"{wrong} errors"
            told = f"{errors} in the configuration: mcpctl doctor says where"
            app.note(app.with_socket(told))


def replace(app: App) -> None:
    """Replace the daemon, or start one if none runs.

    Holds the start lock throughout, so that no other client starts a daemon with another
    configuration or environment.
    """
    from mcpd.client.control import Control

    old = _running_daemon(app)
    if old is None and not app.may_start:
        raise DaemonUnavailable("no daemon runs", why="absent", path=app.socket)
    config = app.config or (old or {}).get("config")
    with Search(app.socket, config=config, variables=app.variables) as search:
        _take_start_lock(search)
        if old is not None and old["version"] is None:
            _stop_incompatible(app, old["pid"])
        elif old is not None:
            bring_down(app, force=False)
        app.status_line.show("starting mcpd")
        try:
            control = search.reach(lambda found: Control.over(found, app.socket))
        except DaemonUnavailable:
            app.status_line.clear()
            if old is not None:
                app.note(f"mcpd, pid {old['pid']}, has ended, and no other one has started")
            raise
    app.status_line.clear()
    with control:
        _report_replacement(app, old, {**control.hello, "socket": app.socket})


def _running_daemon(app: App) -> dict[str, Any] | None:
    """Return the daemon's hello; only its pid if it speaks another version of the protocol."""
    try:
        with app.connect(start=False) as control:
            return {**control.hello}
    except DaemonUnavailable as error:
        if connection.can_start(error):
            return None
        if error.details["why"] != "incompatible" or error.details.get("pid") is None:
            raise
        return {"pid": error.details["pid"], "version": None}


def _stop_incompatible(app: App, pid: int) -> None:
    """Stop a daemon of another protocol version with SIGTERM, and wait for it."""
    from mcpd.client.process import Process

    process = Process(pid)
    try:
        process.require_daemon(app.socket)
        process.send(signal.SIGTERM)
        with app.waiting(f"mcpd, pid {pid}, is stopping its servers") as on_wait:
            if not process.wait(END_TIMEOUT_S, on_wait):
                raise _still_there(pid)
    finally:
        process.close()


def _take_start_lock(search: Search) -> None:
    """Take the start lock; wait a while for a client that is starting a daemon."""
    deadline = time.monotonic() + connection.START_TIMEOUT_S
    while not search.take_lock() and time.monotonic() < deadline:
        time.sleep(connection.POLL_S)


def _report_replacement(app: App, old: dict[str, Any] | None, new: dict[str, Any]) -> None:
    if app.as_json:
        was = None if old is None else {"pid": old["pid"], "version": old["version"]}
        app.print_document({"daemon": new, "replaced": was})
    else:
        told = f"mcpd {new['version']} is up: pid {new['pid']}, {app.socket}"
        if old is not None:
            is_same = old["version"] in (None, new["version"])
            release = "" if is_same else f"mcpd {old['version']}, "
            told += f" (it was {release}pid {old['pid']})"
        app.print(told)
    if new["version"] != __version__:
        app.note(f"this is mcpctl {__version__}, but the daemon is another version")


def bring_down(app: App, *, force: bool) -> int | None:
    """Stop the daemon and wait until it is gone; return its pid, ``None`` if none ran.

    ``force``: kill a daemon that does not respond, or stops responding.
    """
    from mcpd.client.process import lock_holder

    try:
        control = app.connect(start=False)
    except DaemonUnavailable as error:
        if connection.can_start(error):
            # A daemon may run without being reachable: its socket was removed or replaced.
            seen: int | None = error.details.get("pid")
            if seen is not None and not force:
                raise
            pid = (seen or lock_holder(paths.lock_path(app.socket))) if force else None
            return None if pid is None else _force_end(app, pid)
        return _force(app, error, force=force)
    pid = control.hello["pid"]
    try:
        _wait_down(app, control, pid)
    except DaemonUnavailable as error:
        return _force(app, error, force=force)
    return pid


def _wait_down(app: App, control: Control, pid: int) -> None:
    from mcpd.client.process import Process

    with (
        control,
        closing(Process(pid)) as process,
        app.waiting(f"mcpd, pid {pid}, is stopping its servers") as on_wait,
    ):
        _ask_to_end(control)
        began = time.monotonic()
        while not process.wait(POLL_S, on_wait):
            waited_s = time.monotonic() - began
            if daemon_process.is_stopped(pid):
                raise unavailable.unresponsive(app.socket, pid, waited_s)
            if waited_s >= END_TIMEOUT_S:
                raise _still_there(pid)


def _force(app: App, error: DaemonUnavailable, *, force: bool) -> int:
    """Kill a daemon that does not respond; raise ``error`` without ``force``."""
    pid: int | None = error.details.get("pid")
    if not force or error.details["why"] not in ("unresponsive", "stopping") or pid is None:
        raise error
    return _force_end(app, pid)


def _force_end(app: App, pid: int) -> int:
    from mcpd.client.process import Process

    with closing(Process(pid)) as process, app.waiting(f"ending mcpd, pid {pid}") as on_wait:
        process.end(app.socket, on_wait)
    return pid


def _ask_to_end(control: Control) -> None:
    try:
        control.request("mcpd/shutdown", {})
    except DaemonUnavailable as error:
        if error.details["why"] != "gone":  # it may hang up before it has answered
            raise


def _still_there(pid: int) -> DaemonUnavailable:
    return DaemonUnavailable(
        f"mcpd, pid {pid}, still runs after {END_TIMEOUT_S:g} s",
        hint="to end it all the same: mcpctl down --force",
        why="stopping",
        pid=pid,
    )
