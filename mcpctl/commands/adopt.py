"""``mcpctl adopt``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mcpctl import moving, options, render
from mcpctl.commands import imports
from mcpd import exits, paths
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.adopting import Bridge, Wanted
    from mcpd.onboarding.plan import Plan

RENAMES = (
    "one entry for all renames every tool: NAME becomes SERVER__NAME, in prompts and in rules "
    "that allow or deny them"
)


@options.command("adopt", starts=False)
@moving.options
@click.option("--all", "is_all", is_flag=True, help="All clients of this machine.")
@moving.servers
@click.option(
    "--aggregate",
    is_flag=True,
    help="One entry in place of all of them; this renames every tool.",
)
@click.option("--force", is_flag=True, help="Also the files of clients that run.")
@click.option("--status", "is_status", is_flag=True, help="Show what is adopted.")
def adopt_command(
    app: App,
    which: tuple[str, ...],
    names: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    is_all: bool,
    aggregate: bool,
    force: bool,
    is_status: bool,
) -> int:
    """Have clients use mcpd for the servers in their files.

    Imports the servers, then rewrites the entry of each so that it runs "mcpctl connect NAME". The
    rest of the file stays as it is, and mcpctl release puts the entries back.

    \b
    mcpctl adopt --all --dry-run
    mcpctl adopt cursor
    mcpctl adopt --status
    """
    if is_status:
        return _status(app)
    if not which and not is_all:
        raise click.UsageError("Name the clients or files, or say --all.")
    if which and is_all:
        raise click.UsageError("--all is said beside the names of clients.")
    plan = _planned(app, which, names, force=force, may_ask=not (yes or dry_run))
    bridge = _bridge(app)
    wanted = _wanted(plan)
    plan.warnings += _of_adopting(plan)
    if aggregate:
        plan.warnings.insert(0, RENAMES)
    if not app.as_json:
        _show(app, plan, wanted, bridge, is_aggregate=aggregate)
        moving.show_rest(app, plan.left, plan.warnings)
    done: list[Wanted] = list(wanted)
    if not dry_run and wanted:
        may = moving.may_go_on(app, "Write this?", is_yes=yes)
        if may is None:
            return exits.USAGE
        if not may:
            return exits.DONE
        if plan.new:
            imports.write(app, plan)
        known = len(plan.left)
        done = _write(app, plan, wanted, bridge, is_aggregate=aggregate)
        if not app.as_json:
            moving.show_rest(app, plan.left[known:], ())
    if app.as_json:
        app.print_document(moving.document(_done(done), plan.left, plan.warnings))
    elif not wanted:
        app.print("there is nothing to adopt")
    elif not dry_run:
        _say_done(app, done)
    return moving.status(plan.left)


def _planned(
    app: App, which: tuple[str, ...], names: tuple[str, ...], *, force: bool, may_ask: bool
) -> Plan:
    """Ask the person what an import depends on, and return what it would bring."""
    files, left = moving.files(which)
    if not force:
        files, busy = moving.without_running(files)
        left += busy
    files = moving.answered(app, files, may_ask=may_ask)
    plan = imports.planned(app, files, left, names)
    imports.offer_keyring(app, plan, may_ask=may_ask)
    return plan


def _done(done: list[Wanted]) -> list[dict[str, Any]]:
    return [
        {
            "client": each.file.client.id,
            "path": each.file.path,
            "name": each.found.name,
            "server": each.server,
        }
        for each in done
    ]


def _say_done(app: App, done: list[Wanted]) -> None:
    for path in dict.fromkeys(each.file.path for each in done):
        own = [each for each in done if each.file.path == path]
        app.print_line(
            f"{own[0].file.client.title}: {len(own)} adopted in {path}; it reads the file again "
            "in a new session or when it is restarted"
        )
    if done:
        app.print("to put everything back: mcpctl release --all")


def _bridge(app: App) -> Bridge:
    """Return how clients start the bridge: with the socket, if one is named that is not usual."""
    from mcpd.onboarding.adopting import Bridge

    env = {key: value for key, value in os.environ.items() if key != "MCPD_SOCKET"}
    named = app.socket_option or os.environ.get("MCPD_SOCKET")
    path = paths.socket_path(named, env)
    return Bridge(program=program(), socket=None if path == paths.socket_path(None, env) else path)


def program() -> str:
    """Return the absolute path of this ``mcpctl``, as it is found on the ``PATH``."""
    found = shutil.which(sys.argv[0])
    if found is None or os.path.basename(found) != "mcpctl":  # python -m mcpctl
        beside = os.path.join(os.path.dirname(sys.executable), "mcpctl")
        found = beside if os.path.exists(beside) else shutil.which("mcpctl") or beside
    return os.path.abspath(found)


def _wanted(plan: Plan) -> list[Wanted]:
    """Return the entries to rewrite, with those that run an ``mcpctl`` which is gone."""
    from mcpd.onboarding.adopting import Wanted, is_gone

    found = [Wanted(file=m.file, found=m.found, server=m.server) for m in plan.moves]
    for file, entry in plan.bridges:
        if entry.connects is not None and is_gone(entry.connects.program):
            found.append(Wanted(file=file, found=entry, server=None))
    return found


def _of_adopting(plan: Plan) -> list[str]:
    """Return what to know before entries are rewritten."""
    told = []
    for path in dict.fromkeys(m.file.path for m in plan.moves if m.file.scope == "project"):
        told.append(f"{path} belongs to the project: others who use it get these entries too")
    for move in plan.moves:
        mine = plan.own.entries.get(move.server, {})
        if not move.is_new and (mine.get("enabled") is False or mine.get("disabled") is True):
            told.append(f"{move.server} is disabled in mcpd: mcpctl enable {move.server}")
    return list(dict.fromkeys(told))


def _show(
    app: App, plan: Plan, wanted: list[Wanted], bridge: Bridge, *, is_aggregate: bool
) -> None:
    if not wanted:
        return
    imports.show(app, plan)
    for path in dict.fromkeys(each.file.path for each in wanted):
        own = [each for each in wanted if each.file.path == path]
        moving.show_difference(app, path, _lines(app, own, bridge, is_aggregate=is_aggregate))


def _lines(app: App, wanted: list[Wanted], bridge: Bridge, *, is_aggregate: bool) -> Iterator[str]:
    from mcpd.onboarding.adopting import AGGREGATE, applied, changes_of, for_all

    for each in wanted:
        content, name = each.found.content, each.found.name
        yield from moving.lines(app, content, name, moving.REMOVED)
        if not is_aggregate or each.server is None:
            after = applied(content, changes_of(each, bridge))
            yield from moving.lines(app, after, name, moving.ADDED)
    if is_aggregate:
        entry = for_all(wanted[0].file.client, bridge.words(None), AGGREGATE)
        yield from moving.lines(app, entry, AGGREGATE, moving.ADDED)


def _write(
    app: App, plan: Plan, wanted: list[Wanted], bridge: Bridge, *, is_aggregate: bool
) -> list[Wanted]:
    """Rewrite the files, one after the other; what fails is added to what is left."""
    from mcpd.onboarding.adopting import adopt
    from mcpd.onboarding.clients.reading import placed
    from mcpd.onboarding.plan import Left

    groups: dict[Any, list[Wanted]] = {}
    for each in wanted:  # all servers as one: in each table of a file
        key = (each.file.path, each.file.key if is_aggregate else ())
        groups.setdefault(key, []).append(each)
    done: list[Wanted] = []
    for own in groups.values():
        file = own[0].file
        left: list[tuple[Wanted, str]]
        try:
            result = adopt(file.path, own, bridge, is_aggregate=is_aggregate)
            done += result.done
            left = [(each, "it was changed meanwhile") for each in result.changed_since]
        except ConfigError as error:
            left = [(each, placed(file.path, error)) for each in own]
        plan.left += [
            Left(client=file.client.id, path=file.path, name=each.found.name, why=why)
            for each, why in left
        ]
    return done


def _status(app: App) -> int:
    """Print what is adopted."""
    from mcpd.onboarding import originals, releasing

    unusable: dict[str, str] = {}
    rows = releasing.adopted(releasing.in_force(originals.kept(unusable)))
    for path, why in unusable.items():
        app.note(f"{path}: {why}")
    if app.as_json:
        app.print_document(
            {
                "adopted": [
                    {
                        "client": original.change.client,
                        "path": original.change.path,
                        "name": each.name,
                        "server": each.server,
                        "since": original.change.when,
                        "original": original.file,
                    }
                    for original, each in rows
                ]
            }
        )
    elif not rows:
        app.print("nothing is adopted")
    else:
        cells: list[list[render.Cell]] = [
            [
                original.change.client,
                each.name,
                each.server,
                render.moment(original.change.when),
                original.change.path,
            ]
            for original, each in rows
        ]
        app.print_table(["CLIENT", "NAME", "IN MCPD", "SINCE", "FILE"], cells)
        app.print_line(f"the originals are kept in {originals.directory()}")
    return exits.DONE
