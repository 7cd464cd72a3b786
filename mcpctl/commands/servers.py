"""``mcpctl start``, ``stop`` and ``restart``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpctl import failures, options, render

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.messages import Reached
    from mcpd.client.control import Control

STEPS = {
    "eof": "ended by itself at the end of its input",
    "term": "ended at SIGTERM: the end of its input was not enough",
    "kill": "was killed with SIGKILL: neither the end of its input nor SIGTERM was enough",
}
"""What a stop took, by the ``step`` that the daemon tells."""

NOT_RUNNABLE = ("disabled", "misconfigured")


@options.command("start", starts=True)
@options.servers
@options.all_servers
def start_command(app: App, servers: tuple[str, ...], is_all: bool) -> None:
    """Start servers, and return when they are ready.

    \b
    mcpctl start files
    """
    _change(app, "start", servers, is_all)


@options.command("stop", starts=False)
@options.servers
@options.all_servers
@click.option("-v", "--verbose", is_flag=True, help="Say what it took to end each one.")
def stop_command(app: App, servers: tuple[str, ...], is_all: bool, verbose: bool) -> None:
    """Stop servers, and return when all their processes are gone.

    They stay stopped until start or restart, a change of their entry, or a new daemon. Two
    entries with the same launch parameters are one process: it ends when both are stopped.

    \b
    mcpctl stop files
    """
    _change(app, "stop", servers, is_all, is_verbose=verbose)


@options.command("restart", starts=True)
@options.servers
@options.all_servers
@click.option("--daemon", is_flag=True, help="Replace the daemon itself.")
def restart_command(app: App, servers: tuple[str, ...], is_all: bool, daemon: bool) -> None:
    """Restart servers, or the daemon; return when they are ready.

    \b
    mcpctl restart files
    mcpctl restart --daemon
    """
    if not daemon:
        _change(app, "restart", servers, is_all)
        return
    if servers or is_all:
        raise click.UsageError("--daemon restarts everything: name no servers with it.")
    from mcpctl.commands.daemon import bring_down, bring_up

    bring_down(app, force=False)
    bring_up(app)


def _change(
    app: App, verb: str, servers: tuple[str, ...], is_all: bool, *, is_verbose: bool = False
) -> None:
    if is_all == bool(servers):
        raise click.UsageError(f"Name the servers to {verb}, or say --all.")
    with app.connect() as control:
        names = _all(control) if is_all else list(dict.fromkeys(servers))
        if not names:
            raise failures.usage(f"there is no server to {verb}", "server_not_found")
        with app.waiting(f"{verb} {', '.join(names)}") as on_wait:
            result = control.request(f"mcpd/{verb}", {"servers": names}, on_wait=on_wait)
    if app.as_json:
        app.document(result)
        return
    reached: list[Reached] = result["servers"]
    rows: list[list[render.Cell]] = [
        [one["name"], one["state"], "-" if one["pid"] is None else str(one["pid"])]
        for one in reached
    ]
    app.table(["SERVER", "STATE", "PID"], rows)
    for one in reached:
        if one.get("goes_on_for"):
            app.say(f"{one['name']}: its process goes on for {', '.join(one['goes_on_for'])}")
        elif is_verbose:
            app.say(f"{one['name']}: {STEPS.get(one.get('step', ''), 'no process was running')}")


def _all(control: Control) -> list[str]:
    found = control.request("mcpd/status", {})["servers"]
    return [server["name"] for server in found if server["state"] not in NOT_RUNNABLE]
