"""``mcpctl start``, ``stop`` and ``restart``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

import click

from mcpctl import failures, options, render
from mcpctl.commands.status import state_text
from mcpd import exits
from mcpd.errors import McpdError, RequestFailed

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.results import Reached
    from mcpd.client.control import Control

STEPS = {
    "eof": "ended by itself at the end of its input",
    "term": "ended at SIGTERM: the end of its input was not enough",
    "kill": "was killed with SIGKILL: neither the end of its input nor SIGTERM was enough",
}
"""How a server was stopped, by the ``step`` of the daemon's answer."""

NOT_RUNNABLE = ("disabled", "misconfigured", "untrusted")

POLL_S = 1.0
"""Between two requests for the progress of a start."""

ASK_TIMEOUT_S = 2.0
"""For such a request; a busy daemon answers in milliseconds."""


@options.command("start", starts=True)
@options.servers
@options.all_servers
def start_command(app: App, servers: tuple[str, ...], is_all: bool) -> int:
    """Start servers, and return when they are ready.

    Waits for each of several servers. Failures are reported one by one, and the exit status
    is that of the first.

    \b
    mcpctl start files
    """
    return _change(app, "start", servers, is_all)


@options.command("stop", starts=False)
@options.servers
@options.all_servers
@click.option("-v", "--verbose", is_flag=True, help="Print how each one was ended.")
def stop_command(app: App, servers: tuple[str, ...], is_all: bool, verbose: bool) -> int:
    """Stop servers, and return when all their processes are gone.

    They stay stopped until start or restart, a change of their entry, or a new daemon. Two
    entries that launch the same command share a process: it ends when both are stopped.

    \b
    mcpctl stop files
    """
    return _change(app, "stop", servers, is_all, is_verbose=verbose)


@options.command("restart", starts=True)
@options.servers
@options.all_servers
@click.option("--daemon", is_flag=True, help="Replace the daemon itself.")
def restart_command(app: App, servers: tuple[str, ...], is_all: bool, daemon: bool) -> int:
    """Restart servers, or the daemon; return when they are ready.

    With --daemon: the daemon lets calls finish, stops its servers and ends. The next one
    runs the installed version, with the same configuration and socket, in the environment
    of this shell. Bridges (mcpctl connect) continue with it.

    \b
    mcpctl restart files
    mcpctl restart --daemon
    """
    if not daemon:
        return _change(app, "restart", servers, is_all)
    if servers or is_all:
        raise click.UsageError("--daemon restarts everything: name no servers with it.")
    from mcpctl.commands.daemon import replace

    replace(app)
    return exits.DONE


def _change(
    app: App, verb: str, servers: tuple[str, ...], is_all: bool, *, is_verbose: bool = False
) -> int:
    if is_all and servers:
        raise click.UsageError(f"Name the servers to {verb}, or say --all, but not both.")
    if not (is_all or servers):
        raise click.UsageError(f"Name the servers to {verb}, or say --all.")
    with app.connect() as control:
        names = _all(app, control, verb) if is_all else list(dict.fromkeys(servers))
        if not names:
            raise failures.usage(f"there is no server to {verb}", "server_not_found")
        try:
            with _Progress(app, verb, names) as progress, app.waiting(progress.text) as on_wait:
                result = control.request(f"mcpd/{verb}", {"servers": names}, on_wait=on_wait)
        except RequestFailed as error:
            if app.as_json or not _report_each(app, error):
                raise
            return exits.of_error(error)
    if app.as_json:
        app.print_document(result)
        return exits.DONE
    reached: list[Reached] = result["servers"]
    _table(app, reached)
    for one in reached:
        if one.get("goes_on_for"):
            app.print_line(
                f"{one['name']}: its process goes on for {', '.join(one['goes_on_for'])}"
            )
        elif is_verbose:
            app.print_line(
                f"{one['name']}: {STEPS.get(one.get('step', ''), 'no process was running')}"
            )
    return exits.DONE


def _report_each(app: App, error: RequestFailed) -> bool:
    """Report the outcome for each of several servers; return ``False`` if there was one."""
    reached = error.data.get("servers") if isinstance(error.data, dict) else None
    if not reached:
        return False
    _table(app, reached)
    sys.stdout.flush()
    for one in reached:
        if "error" in one:
            app.note(*failures.lines(RequestFailed.of(one["error"]), app.socket_option))
    return True


def _table(app: App, reached: list[Reached]) -> None:
    rows: list[list[render.Cell]] = [
        [one["name"], one["state"], "-" if one["pid"] is None else str(one["pid"])]
        for one in reached
    ]
    app.print_table(["SERVER", "STATE", "PID"], rows)


class _Progress:
    """The status line during a start: the servers that are not ready yet, and their states.

    Asks on a connection of its own, once a second; after a failure the line stays plain.
    """

    def __init__(self, app: App, verb: str, names: list[str]) -> None:
        self._app = app
        self._verb = verb
        self._names = names
        self._text = self._plain = f"{verb} {', '.join(names)}"
        self._asked_at = -POLL_S
        self._control: Control | None = None
        self._is_off = verb == "stop"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._control is not None:
            self._control.close()

    def text(self) -> str:
        """Return the text of the status line."""
        now = time.monotonic()
        if not self._is_off and now - self._asked_at >= POLL_S:
            self._asked_at = now
            try:
                self._text = self._ask()
            except McpdError:
                self._text, self._is_off = self._plain, True
        return self._text

    def _ask(self) -> str:
        if self._control is None:
            self._control = self._app.connect(start=False)
        asked = {"servers": self._names}
        found = self._control.request("mcpd/status", asked, timeout=ASK_TIMEOUT_S)["servers"]
        parts = [f"{one['name']} {state_text(one)}" for one in found if one["state"] != "ready"]
        return f"{self._verb}: {', '.join(parts)}" if parts else self._plain


def _all(app: App, control: Control, verb: str) -> list[str]:
    found = control.request("mcpd/status", {})["servers"]
    wrong = [server["name"] for server in found if server["state"] == "misconfigured"]
    if wrong and verb != "stop":
        app.note(f"without {', '.join(wrong)} (misconfigured); to see why: mcpctl list")
    return [server["name"] for server in found if server["state"] not in NOT_RUNNABLE]
