"""``mcpctl release``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mcpctl import moving, options
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.originals import Changed
    from mcpd.onboarding.plan import Left
    from mcpd.onboarding.releasing import Open


@options.command("release", starts=False)
@moving.options
@click.option("--all", "is_all", is_flag=True, help="All clients of this machine.")
@click.option("--force", is_flag=True, help="Also the files of clients that run.")
def release_command(
    app: App, which: tuple[str, ...], dry_run: bool, yes: bool, is_all: bool, force: bool
) -> int:
    """Put back the entries of clients that adopt has rewritten.

    A file that nobody has changed since gets back what was in it, byte for byte. Otherwise each
    entry that is as adopt left it gets back its old text; entries that somebody changed stay, and
    are named. mcpd keeps the servers: see remove for that.

    \b
    mcpctl release cursor
    mcpctl release --all
    """
    from mcpd.onboarding import originals, releasing
    from mcpd.onboarding.plan import Left

    if not which and not is_all:
        raise click.UsageError("Name the clients or files, or say --all.")
    moving.check(which)
    unusable: dict[str, str] = {}
    kept = originals.kept(unusable)
    opened = {
        path: own
        for path, own in releasing.by_path(releasing.in_force(kept)).items()
        if is_all or _is_meant(which, own)
    }
    done, left = _run(opened, is_dry=True, is_forced=force)
    lost = [Left(client=None, path=path, name=None, why=why) for path, why in unusable.items()]
    left = [*lost, *left]
    if not app.as_json:
        for path in dict.fromkeys(path for path, _, _ in done):
            own = [each for where, _, each in done if where == path]
            moving.show_difference(app, path, _lines(app, own))
        moving.show_rest(app, left, ())
    if done and not dry_run:
        may = moving.may_go_on(app, "Write this?", is_yes=yes)
        if may is None:
            return exits.USAGE
        if not may:
            return exits.DONE
        known = len(left)
        done, left = _run(opened, is_dry=False, is_forced=force)
        left = [*lost, *left]
        if not app.as_json:
            moving.show_rest(app, left[known:], ())
    if app.as_json:
        rows: list[dict[str, Any]] = [
            {"client": client, "path": path, "name": each.name, "server": each.server}
            for path, client, each in done
        ]
        app.print_document(moving.document(rows, left, ()))
    elif not done and not left:
        app.print("there is nothing to release")
    elif not dry_run:
        for path in dict.fromkeys(path for path, _, _ in done):
            count = sum(where == path for where, _, _ in done)
            app.print_line(f"{path}: {count} put back")
    if left and not app.as_json:
        app.print_line(f"the originals are kept in {originals.directory()}")
    return moving.status(left)


Done = list[tuple[str, str, "Changed"]]


def _is_meant(which: tuple[str, ...], opened: Open) -> bool:
    change = opened[0][0].change
    files = {os.path.realpath(word) for word in which if moving.is_file(word)}
    return change.client in which or os.path.realpath(change.path) in files


def _run(opened: dict[str, Open], *, is_dry: bool, is_forced: bool) -> tuple[Done, list[Left]]:
    """Release each file, or only look what that would do."""
    from mcpd.onboarding.clients.reading import placed
    from mcpd.onboarding.clients.table import BY_ID
    from mcpd.onboarding.plan import Left
    from mcpd.onboarding.releasing import release
    from mcpd.onboarding.running import process_of

    done: Done = []
    left: list[Left] = []
    for path, own in opened.items():
        name = own[0][0].change.client
        client = BY_ID.get(name)
        pid = None if is_forced or client is None else process_of(client)
        if client is not None and pid is not None:
            why = moving.busy(client.title, pid)
            left.append(Left(client=name, path=path, name=None, why=why))
            continue
        try:
            result = release(path, own, is_dry=is_dry)
        except ConfigError as error:
            is_broken = "line" in error.details
            left.append(
                Left(
                    client=name,
                    path=path,
                    name=None,
                    why=placed(path, error),
                    is_broken=is_broken,
                )
            )
            continue
        done += [(path, name, each) for each in result.done]
        left += [Left(client=name, path=path, name=each.name, why=why) for each, why in result.left]
    return done, left


def _lines(app: App, changed: list[Changed]) -> Iterator[str]:
    for each in changed:
        if each.ours is not None:
            yield from moving.lines(app, each.ours, each.name, moving.REMOVED)
        yield from moving.lines(app, each.content, each.name, moving.ADDED)
