"""``mcpctl test``: whether a server works, and how long each step of its start takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcpctl import completion, failures, options
from mcpd import exits
from mcpd.errors import RequestFailed

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Control

NOTHING_STARTED = {"step": "start", "ok": False, "ms": 0.0}


@options.command("test", starts=True)
@click.argument("server", shell_complete=completion.servers)
def test_command(app: App, server: str) -> int:
    """Start a server, and print what it has and how long that took.

    The steps are the start of its process or connection, the handshake, and the lists. For a
    server that runs already they are those of its last start. It stays running, until it is idle.

    \b
    mcpctl test files
    """
    with app.connect() as control:
        return report(app, control, server)


def report(app: App, control: Control, server: str) -> int:
    """Start a server, print how that went, and return the exit status."""
    steps: list[dict[str, Any]]
    try:
        with app.waiting(f"testing {server}") as on_wait:
            reached = control.request("mcpd/start", {"servers": [server]}, on_wait=on_wait)
    except RequestFailed as error:
        if error.kind == "server_not_found":
            raise
        steps = (error.data or {}).get("steps") or [NOTHING_STARTED]
        if app.as_json:
            told = {"server": server, "ok": False, "steps": steps, "tools": 0}
            app.print_document({**told, **failures.document(error, app.socket_option)})
        else:
            _print_steps(app, steps)
            app.note(*failures.lines(error, app.socket_option))
        return exits.of_error(error)
    steps = reached["servers"][0].get("steps", [])
    counts = {
        name: len(control.request(f"mcpd/{name}", {"server": server})[name])
        for name in ("tools", "prompts", "resources")
    }
    if app.as_json:
        app.print_document({"server": server, "ok": True, "steps": steps, "tools": counts["tools"]})
        return exits.DONE
    status = control.request("mcpd/status", {"servers": [server]})["servers"][0]
    _print_steps(app, steps)
    has = ", ".join(_counted(name, count) for name, count in counts.items() if count)
    app.print_line(f"{server} works: {_described(status)}, {has or 'with nothing in its lists'}")
    return exits.DONE


def _print_steps(app: App, steps: list[dict[str, Any]]) -> None:
    app.print_table(
        ["STEP", "", "TIME"],
        [[one["step"], "ok" if one["ok"] else "failed", f"{one['ms']:.0f} ms"] for one in steps],
    )


def _counted(name: str, count: int) -> str:
    return f"{count} {name.removesuffix('s') if count == 1 else name}"


def _described(status: dict[str, Any]) -> str:
    info = status.get("server_info") or {}
    named = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
    spoken = f"MCP {status['protocol_version']}"
    return f"{named}, {spoken}" if named else spoken
