"""``mcpctl scan``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mcpctl import options, render
from mcpd import exits

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.clients.search import ClientFile
    from mcpd.onboarding.scan import Seen

SAID = {"user": "", "local": " for {0}", "project": " of the project {0}"}


@options.command("scan", starts=False)
@click.option(
    "--project",
    "projects",
    multiple=True,
    metavar="DIR",
    type=click.Path(),
    help="Also the files of the project in DIR; can be given several times.",
)
def scan_command(app: App, projects: tuple[str, ...]) -> int:
    """Show which MCP servers the clients on this machine have.

    Looks at the files of the user, of the current directory and its parents, and of the projects
    that Claude Code knows. Starts nothing and writes nothing.

    \b
    mcpctl scan
    mcpctl scan --project ~/src/shop --json
    """
    show(app, projects)
    return exits.DONE


def show(app: App, projects: Sequence[str] = (), *, is_alone: bool = True) -> None:
    """Print the servers of clients, and what to do with them if nothing else says that."""
    from mcpd.onboarding import own, scan
    from mcpd.onboarding.clients import search

    where = [*search.here(os.getcwd()), *map(os.path.expanduser, projects)]
    files = search.found(projects=where)
    rows = scan.compared(files, own.read(app.config))
    if app.as_json:
        app.print_document({"files": [_plain(file, servers) for file, servers in rows]})
    elif not rows:
        app.print("no client with MCP servers was found on this machine")
        if is_alone:
            app.note("to add a server by hand", "  mcpctl add NAME -- COMMAND")
    elif _show(app, rows) and is_alone:
        app.print("")
        app.print("to move them: mcpctl adopt --all    to copy them: mcpctl import")


def _plain(file: ClientFile, servers: list[Seen]) -> dict[str, Any]:
    error = None
    if file.error is not None:
        error = {"line": file.error.details.get("line"), "message": file.error.message}
    plain: dict[str, Any] = {"client": file.client.id, "path": file.path, "scope": file.scope}
    if file.project is not None:
        plain["project"] = file.project
    return {
        **plain,
        "error": error,
        "others_can_read": file.others_can_read,
        "servers": [
            {
                "name": each.found.name,
                "same": each.same,
                "known": each.known,
                "secrets": list(each.secrets),
                "why_not": each.found.why_not,
                "adopted": each.adopted,
            }
            for each in servers
        ],
    }


def _show(app: App, rows: list[tuple[ClientFile, list[Seen]]]) -> bool:
    """Print the servers by file; return whether any can be moved."""
    from mcpd.onboarding.clients.reading import placed

    first: dict[str, str] = {}
    to_do = 0
    for file, servers in rows:
        app.print_line(f"{file.client.title}: {file.path}{SAID[file.scope].format(file.project)}")
        if file.error is not None:
            app.print_line(f"  cannot be read: {placed(file.path, file.error)}")
        elif not servers:
            app.print_line("  no servers")
        if file.others_can_read and any(each.secrets for each in servers):
            app.print_line("  others can read this file, and it has secrets in the clear")
        width = max((render.columns(each.found.name) for each in servers), default=0)
        for each in servers:
            name = each.found.name
            said = _said(each, first)
            first.setdefault(each.same, f"{name} of {file.client.title}")
            to_do += not each.adopted and each.found.why_not is None
            app.print_line(f"  {name}{' ' * (width - render.columns(name))}  {said}")
    return to_do > 0


def _said(each: Seen, first: dict[str, str]) -> str:
    """Say in a few words what there is to know of a server."""
    parts: list[str] = []
    if each.adopted:
        connects = each.found.connects
        server = connects.server if connects is not None else None
        parts.append(f"runs mcpctl connect {server or ''}".rstrip())
    elif each.found.why_not is not None:
        parts.append(f"cannot be moved: {each.found.why_not}")
    elif each.known is not None:
        parts.append(f"mcpd has it as {each.known}")
    elif each.same in first:
        parts.append(f"the same as {first[each.same]}")
    else:
        parts.append("new")
    if each.found.entry.get("enabled") is False:
        parts.append("disabled")
    if each.secrets:
        parts.append(f"in the clear: {', '.join(each.secrets)}")
    return "; ".join(parts)
