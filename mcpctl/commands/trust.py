"""``mcpctl trust`` and ``untrust``: what the files of a project may run."""

from __future__ import annotations

import os
import shlex
import sys
import termios
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from mcpctl import applying, options, render
from mcpd import exits

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.client.control import Control
    from mcpd.projects.look import Look

STATES = {
    "untrusted": "waits",
    "changed": "has changed since you trusted it",
    "never": "is not asked about",
    "trusted": "is trusted",
}
HEADER = ["PROJECT", "SERVERS", "SINCE"]

one_server = click.option(
    "--server", "servers", multiple=True, metavar="S", help="One server; may be given repeatedly."
)
directory = click.argument(
    "directory", required=False, metavar="[DIR]", type=click.Path(file_okay=False)
)


@options.command("trust", starts=False)
@directory
@one_server
@click.option(
    "--hash", "digest", metavar="H", help="Trust exactly what has this hash, without a question."
)
@click.option("--never", is_flag=True, help="Never run them, and do not mention them.")
@click.option("--list", "lists", is_flag=True, help="List what is trusted.")
def trust_command(
    app: App,
    directory: str | None,
    servers: tuple[str, ...],
    digest: str | None,
    never: bool,
    lists: bool,
) -> int:
    """Show what the files of a project would run, and trust it.

    A project's servers run for sessions in that project, once you have trusted them here. The
    answer is read from the terminal; --hash takes the place of a terminal, with the hash that
    --json prints. A change of an entry asks again. Works with and without a daemon.

    \b
    mcpctl trust ~/src/shop
    mcpctl trust --json
    """
    if lists:
        return _list(app)
    control = applying.daemon(app)
    seen = _look(app, directory, control)
    unknown = [name for name in servers if name not in seen.project.offers]
    if unknown:
        raise click.UsageError(f"{seen.project.workspace} has no server {', '.join(unknown)}")
    if app.as_json and digest is None and not never:
        app.print_document(seen.document())
        return exits.DONE
    if control is not None:  # refused before anything is looked at: nobody is to guess hashes
        control.request("mcpd/trust", {"dir": seen.project.workspace, "entries": []})
    left = exits.FAILED if any(p.severity == "error" for p in seen.project.problems) else exits.DONE
    if never:
        return _refuse(app, seen, servers, control)
    if digest is not None:
        names = _with_hash(seen, digest, servers)
        if not names:
            app.note(
                f"nothing of {seen.project.workspace} has this hash any more",
                f"  {_typed(app, seen, '--json')}",
            )
            return exits.FAILED
    else:
        names = seen.untrusted(servers)
        _show(app, seen, names)
        if not names:
            return left
        if not _agreed(app, seen, names):
            app.note("nothing was trusted")
            return exits.FAILED
    _remember(app, seen, names, control)
    return left


@options.command("untrust", starts=False)
@directory
@one_server
def untrust_command(app: App, directory: str | None, servers: tuple[str, ...]) -> int:
    """Take back what was trusted of a project.

    Its servers stop after the calls in flight.

    \b
    mcpctl untrust ~/src/shop
    """
    from mcpd.projects import kept
    from mcpd.projects.look import workspace_at
    from mcpd.projects.repository import home_of

    path = kept.path_in(app.state_dir)
    known = kept.read(path)
    given = os.path.realpath(directory or ".")
    home = given if given in known else home_of(os.path.realpath(workspace_at(directory)))
    if home not in known:
        app.note(f"nothing of {home} was trusted")
        return exits.FAILED
    kept.forget(path, home, servers or None)
    _have_it_looked_at(applying.daemon(app))
    if app.as_json:
        app.print_document({"dir": home, "servers": list(servers) or None})
    else:
        app.print_line(f"not trusted any more: {', '.join(servers) or 'all'} of {home}")
    return exits.DONE


def _look(app: App, directory: str | None, control: Control | None) -> Look:
    from mcpd.projects.look import look

    config = app.config or (None if control is None else control.hello.get("config"))
    env = {**os.environ, **app.variables}
    return look(directory, state_dir=app.state_dir, config=config, env=env)


def _with_hash(seen: Look, digest: str, servers: tuple[str, ...]) -> list[str]:
    """Return the servers that a hash is of: that of the project is of all."""
    if digest == seen.project.hash and not servers:
        return list(seen.project.offers)
    return [
        name
        for name, offer in seen.project.offers.items()
        if offer.hash == digest and (not servers or name in servers)
    ]


def _show(app: App, seen: Look, names: list[str]) -> None:
    project = seen.project
    for problem in project.problems:
        app.note(str(problem))
    if not project.offers:
        if not project.problems:
            app.print(f"no file of {project.workspace} names a server")
        return
    if not names:
        app.print(f"nothing of {project.workspace} waits: {', '.join(project.offers)} can be used")
        return
    app.print_line(f"The project in {project.workspace} asks to run:")
    for name in names:
        app.print("")
        app.print_line(f"{name} ({seen.where(name)}) {STATES[seen.states[name]]}")
        for line in seen.shown(name):
            app.print_line(f"  {line}")
    app.print("")


def _agreed(app: App, seen: Look, names: list[str]) -> bool:
    """Ask on the terminal, whatever stdin is; raise ``UsageError`` where there is none."""
    what = "it" if len(names) == 1 else f"these {len(names)}"
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            sys.stdout.flush()
            termios.tcflush(terminal, termios.TCIFLUSH)  # typed before anything was shown
            terminal.write(f"Trust {what}? Type yes or no: ".encode())
            answer = terminal.readline().strip().lower()
    except (OSError, termios.error):
        typed = _typed(app, seen, "--hash", seen.project.hash)
        raise click.UsageError(
            f"there is no terminal to answer in; if you have looked at it: {typed}"
        ) from None
    return answer in (b"y", b"yes")


def _typed(app: App, seen: Look, *more: str) -> str:
    return app.with_socket(shlex.join(["mcpctl", "trust", seen.project.workspace, *more]))


def _remember(app: App, seen: Look, names: list[str], control: Control | None) -> None:
    """Have the daemon remember what is trusted, where one runs, and print it."""
    from mcpd.projects import kept

    project = seen.project
    offers = [project.offers[name] for name in names]
    if control is not None:
        shown = [{"name": offer.name, "hash": offer.hash} for offer in offers]
        control.request("mcpd/trust", {"dir": project.workspace, "entries": shown})
    else:
        path = kept.path_in(app.state_dir)
        kept.trust(path, project.home, kept.answers(offers, project.directory))
    if app.as_json:
        app.print_document({"dir": project.workspace, "trusted": names})
    else:
        app.print_line(f"trusted: {', '.join(names)} of {project.workspace}")


def _refuse(app: App, seen: Look, servers: tuple[str, ...], control: Control | None) -> int:
    """Remember what is never asked about again: these servers, or the whole project."""
    from mcpd.projects import kept

    project = seen.project
    kept.refuse(kept.path_in(app.state_dir), project.home, servers or None)
    _have_it_looked_at(control)
    if app.as_json:
        app.print_document({"dir": project.workspace, "never": list(servers) or None})
    else:
        whose = f"{', '.join(servers)} of {project.workspace}" if servers else project.workspace
        app.print_line(f"never asked about again: {whose}")
    return exits.DONE


def _have_it_looked_at(control: Control | None) -> None:
    """Have the daemon stop what is not trusted any more: it may not watch the file."""
    if control is not None:
        control.request("mcpd/projects")


def _list(app: App) -> int:
    from mcpd.projects import kept

    known = list(kept.read(kept.path_in(app.state_dir)).values())
    if app.as_json:
        app.print_document(
            {
                "trusted": [
                    {"dir": each.dir, "servers": sorted({a.name for a in each.trusted})}
                    for each in known
                    if each.trusted
                ],
                "never": [
                    {"dir": each.dir, "servers": None if each.is_never else list(each.never)}
                    for each in known
                    if each.is_never or each.never
                ],
            }
        )
        return exits.DONE
    rows: list[list[render.Cell]] = []
    for each in known:
        if each.trusted:
            since = datetime.fromtimestamp(max(answer.at for answer in each.trusted), UTC)
            names = ", ".join(sorted({answer.name for answer in each.trusted}))
            rows.append([each.dir, names, since.isoformat(timespec="seconds")])
        if each.is_never or each.never:
            rows.append([each.dir, f"never: {', '.join(each.never) or 'all'}", ""])
    if rows:
        app.print_table(HEADER, rows)
    else:
        app.print("no project is trusted")
    return exits.DONE
