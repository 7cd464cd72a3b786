"""``mcpctl remove``, ``enable`` and ``disable``: entries of mcpd's own configuration."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from mcpctl import applying, options
from mcpctl.commands.add import scope
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.changes import Place, Scope


def _configured(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a server that stands in a file."""
    from mcpd.onboarding import changes

    is_project = context.params.get("scope") == "project"
    where = changes.Scope(
        context.find_root().params.get("config"), os.getcwd() if is_project else None
    )
    try:
        return [name for name in where.places() if name.startswith(incomplete)]
    except ConfigError:  # an error message would disturb the command line
        return []


names = click.argument(
    "names", nargs=-1, required=True, metavar="SERVER...", shell_complete=_configured
)


@options.command("remove", starts=False)
@names
@scope
def remove_command(app: App, names: tuple[str, ...], scope: str) -> int:
    """Remove servers from your configuration, with their comments.

    A running daemon stops them.

    \b
    mcpctl remove files
    """
    return _change(app, scope, "removed", lambda where: where.remove(names))


@options.command("enable", starts=False)
@names
@scope
def enable_command(app: App, names: tuple[str, ...], scope: str) -> int:
    """Switch servers on in your configuration.

    \b
    mcpctl enable files
    """
    return _change(app, scope, "enabled", lambda where: where.switch(names, is_on=True))


@options.command("disable", starts=False)
@names
@scope
def disable_command(app: App, names: tuple[str, ...], scope: str) -> int:
    """Switch servers off in your configuration.

    They have no process and no tools until they are enabled.

    \b
    mcpctl disable files
    """
    return _change(app, scope, "disabled", lambda where: where.switch(names, is_on=False))


def _change(app: App, scope: str, done: str, change: Callable[[Scope], list[Place]]) -> int:
    from mcpd.onboarding import changes

    project = os.getcwd() if scope == "project" else None
    places = change(changes.Scope(app.config, project))
    applied = applying.reload(app)
    rows = [{"name": str(place.path[-1]), "file": place.file} for place in places]
    if app.as_json:
        app.print_document(
            {"servers": rows, "applied": applied.is_applied, "errors": applied.errors}
        )
        return exits.DONE
    for row in rows:
        app.print_line(f"{done} {row['name']} ({row['file']})")
    if applied.is_applied and project is None:
        applying.note(app, places[-1].file)
    return exits.DONE
