"""``mcpctl secret``: the secrets that entries name as ``${keyring:NAME}``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from mcpctl import applying, options, questions, render
from mcpctl.context import App
from mcpd import exits

if TYPE_CHECKING:
    from mcpd.client.control import Control
    from mcpd.secrets.store import Store, Where
    from mcpd.secrets.uses import Uses

HEADER = ["SECRET", "WHERE", "USED BY"]
PLACES = {"systemd": "systemd's credentials", "keyring": "the keyring", "file": "the file"}
UNKNOWN = {
    "locked": "unknown: the keyring is locked",
    "unavailable": "unknown: the keyring cannot be used",
}


def _names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a secret: those of entries, and those in the file."""
    from mcpd.errors import McpdError

    root = context.find_root().params
    app = App(root.get("socket"), root.get("config"))
    try:
        store, uses = open_store(app, None)
        found = {*uses.servers, *store.names()}
    except McpdError:  # an error message would disturb the command line
        return []
    return sorted(name for name in found if name.startswith(incomplete))


one = click.argument("name", shell_complete=_names)
more = click.argument("more", nargs=-1, metavar="")
"""Nothing; a value that was typed here is refused without being repeated."""


@click.group("secret")
def secret_command() -> None:
    """Keep secrets outside of the configuration.

    An entry names one as ${keyring:NAME} in env, args, headers or auth, and gets it when its
    server starts. It is kept in the keyring of the operating system, or where there is none in a
    file that only you can read. No daemon is needed.

    \b
    mcpctl secret set github
    mcpctl secret list
    """


@options.command("set", starts=False)
@one
@more
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the value from stdin.")
def set_command(app: App, name: str, more: tuple[str, ...], from_stdin: bool) -> None:
    """Set a secret; it is asked for and not shown.

    The value is never an argument: those are in the shell's history and in the list of processes.
    The servers that use it are restarted after their calls in flight.

    \b
    mcpctl secret set github
    pass show github | mcpctl secret set github --stdin
    """
    from mcpd.secrets.store import check

    if more:
        raise click.UsageError(
            "the value of a secret is no argument, which others can see: it is asked for, or "
            "read from stdin with --stdin"
        )
    check(name)
    control = applying.daemon(app)
    store, uses = open_store(app, control)
    value = _value(app, name, from_stdin=from_stdin)
    place = store.set(name, value)
    servers = list(uses.servers.get(name, ()))
    if control is not None:
        servers = control.request("mcpd/secret_changed", {"name": name})["servers"]
    if app.as_json:
        app.print_document({"name": name, "place": place, "servers": servers})
        return
    app.print_line(f"{name} is in {_place(store, place)}")
    if place == "file":
        app.note("it is there in the clear: only you can read the file")
    if not servers:
        app.note(f"no server uses it yet; an entry names it as ${{keyring:{name}}}")
    elif control is not None:
        app.print_line(f"restarted when idle: {', '.join(servers)}")


@options.command("list", starts=False)
def list_command(app: App) -> None:
    """List the secrets that entries name or the file has: where each is, and who uses it.

    A keyring does not tell which secrets it has, so one that no entry names is not listed.

    \b
    mcpctl secret list
    """
    store, uses = open_store(app, applying.daemon(app))
    names = sorted({*uses.servers, *store.names()})
    found = store.where(names)
    if app.as_json:
        app.print_document(
            {
                "keyring": uses.mode,
                "problem": found.problem,
                "file": store.path,
                "secrets": [
                    {
                        "name": name,
                        "places": found.places[name],
                        "servers": uses.servers.get(name, []),
                    }
                    for name in names
                ],
            }
        )
        return
    if not names:
        app.print("no entry names a secret; mcpctl secret set NAME keeps one")
        return
    rows: list[list[render.Cell]] = [
        [name, _where(store, found, name), ", ".join(uses.servers.get(name, ())) or "nobody"]
        for name in names
    ]
    app.print_table(HEADER, rows)


@options.command("rm", starts=False)
@one
def rm_command(app: App, name: str) -> None:
    """Remove a secret. A server that runs with it keeps it until it is restarted.

    \b
    mcpctl secret rm github
    """
    store, _ = open_store(app, applying.daemon(app))
    places = store.remove(name)
    if app.as_json:
        app.print_document({"name": name, "places": places})
    else:
        app.print_line(f"removed {name} from {' and '.join(_place(store, p) for p in places)}")


@options.command("move", starts=False)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_names)
def move_command(app: App, names: tuple[str, ...]) -> int:
    """Move secrets from the file to the keyring, all of them without a name.

    \b
    mcpctl secret move
    """
    store, _ = open_store(app, applying.daemon(app))
    moved = store.move(names)
    if app.as_json:
        app.print_document({"moved": moved})
    elif moved:
        app.print_line(f"moved to the keyring: {', '.join(moved)}")
    else:
        app.print_line(f"{store.path} has no secrets")
    return exits.DONE


for each in (set_command, list_command, rm_command, move_command):
    secret_command.add_command(each)


def open_store(app: App, control: Control | None) -> tuple[Store, Uses]:
    """Return the secrets, and what the daemon's configuration says of them."""
    from mcpd.secrets import uses
    from mcpd.secrets.store import Store

    config = app.config or (None if control is None else control.hello.get("config"))
    env = {**os.environ, **app.variables}
    found = uses.read(config, env)
    return Store(app.state_dir, found.mode, env), found


def _value(app: App, name: str, *, from_stdin: bool) -> str:
    if from_stdin:
        try:
            return sys.stdin.buffer.read().decode().removesuffix("\n")
        except UnicodeDecodeError:
            raise click.UsageError("expected text in UTF-8 on stdin") from None
    if not questions.can_ask(app):
        raise click.UsageError(f"nobody is here to type it: mcpctl secret set {name} --stdin")
    value: str = click.prompt(f"{name} (not shown)", hide_input=True, err=True)
    return value


def _place(store: Store, place: str) -> str:
    return store.path if place == "file" else PLACES[place]


def _where(store: Store, found: Where, name: str) -> str:
    places = found.places[name]
    if places:
        return _place(store, places[0])
    return UNKNOWN.get(found.problem or "", "missing")
