"""``mcpctl import``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcpctl import applying, failures, moving, options, questions, render
from mcpctl.commands.secret import open_store
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.clients.search import ClientFile
    from mcpd.onboarding.plan import Left, Plan


@options.command("import", starts=False)
@moving.options
@moving.servers
def import_command(
    app: App, which: tuple[str, ...], names: tuple[str, ...], dry_run: bool, yes: bool
) -> int:
    """Copy servers of other clients into the configuration of mcpd.

    Takes all clients of this machine, or those that are named, or files in any client's format.
    Equal servers are copied once. Nothing of the clients is changed: see adopt for that.

    \b
    mcpctl import --dry-run
    mcpctl import cursor codex --yes
    mcpctl import ~/src/shop/.mcp.json --server shop
    """
    files, missing = moving.files(which)
    files = moving.answered(app, files, may_ask=not (yes or dry_run))
    plan = planned(app, files, missing, names)
    offer_keyring(app, plan, may_ask=not (yes or dry_run))
    if not app.as_json:
        show(app, plan)
        moving.show_rest(app, plan.left, plan.warnings)
    if not dry_run and plan.new:
        may = moving.may_go_on(app, f"Write this to {plan.own.path}?", is_yes=yes)
        if may is None:
            return exits.USAGE
        if not may:
            return exits.DONE
        write(app, plan)
    if app.as_json:
        done = moving.done_of(plan)
        app.print_document(moving.document(done, plan.left, plan.warnings))
    elif not plan.moves:
        app.print("there is nothing to import")
    elif not plan.new:
        app.print("mcpd has them already")
    elif not dry_run:
        count = len(plan.new)
        app.print(f"{plan.own.path}: {count} {'server' if count == 1 else 'servers'} added")
    return moving.status(plan.left)


def planned(app: App, files: list[ClientFile], missing: list[Left], names: tuple[str, ...]) -> Plan:
    """Return what an import of these files would do; ``missing`` is added to what is left."""
    from mcpd.onboarding import keeping, own
    from mcpd.onboarding.plan import plan

    try:
        mine = own.read(app.config)
        named = sorted(set(keeping.names_in(mine.entries)))
        secrets = open_store(app, None)[0].values(named).found if named else {}
        made = plan(files, mine, names, secrets)
    except ConfigError as error:
        raise failures.usage(error.message) from None
    made.left += missing
    return made


def offer_keyring(app: App, plan: Plan, *, may_ask: bool) -> None:
    """Ask on a terminal whether literal secrets go to the keyring, if one can be used."""
    from mcpd.onboarding import keeping

    if not may_ask or not questions.can_ask(app):
        return
    found = keeping.literals(plan.new)
    if not found:
        return
    store, _ = open_store(app, applying.daemon(app))
    if not store.uses_keyring:
        return
    said = store.values(sorted({each.usual_name for each in found}))
    if said.problem is not None:
        return
    where = ", ".join(f"{each.server} ({each.key})" for each in found)
    app.note(f"secrets in the clear: {where}")
    if not questions.confirmed("Keep them in the keyring, and only their names in the file?"):
        return
    names = keeping.chosen(found, said.found)
    plan.new = keeping.moved(plan.new, names)
    plan.secrets = {name: each.value for each, name in names.items()}


def show(app: App, plan: Plan) -> None:
    """Print which servers are moved, and what is added to the configuration."""
    if not plan.moves:
        return
    rows: list[list[render.Cell]] = [
        [move.file.client.id, move.found.name, move.server, _said(plan, move.server, move.is_new)]
        for move in plan.moves
    ]
    app.print_table(["CLIENT", "NAME", "IN MCPD", ""], rows)
    app.print("")
    if plan.new:
        moving.show_difference(app, plan.own.path, _lines(app, plan))


def _lines(app: App, plan: Plan) -> Iterator[str]:
    for name, entry in plan.new.items():
        yield from moving.lines(app, entry, name, moving.ADDED)


def _said(plan: Plan, server: str, is_new: bool) -> str:
    if not is_new:
        return "the same server" if server in plan.new else "mcpd has it already"
    return "new, disabled" if plan.new[server].get("enabled") is False else "new"


def write(app: App, plan: Plan) -> None:
    """Add the new servers to the configuration, once their secrets are set."""
    from mcpd.onboarding import own, shown

    if plan.secrets:
        store, _ = open_store(app, applying.daemon(app))
        for name, value in plan.secrets.items():
            store.set(name, value)
    has_secrets = bool(app.hidden) or any(map(shown.secrets, plan.new.values()))
    try:
        own.add(plan.own, plan.new, private=has_secrets, comments=_comments(plan))
    except ConfigError as error:
        raise failures.usage(error.message) from None
    applying.reload(app)


def _comments(plan: Plan) -> list[str]:
    """Return what the file says of the servers that were left out."""
    return [
        moving.masked(f"{each.name} of {each.client} was left out: {each.why}")
        for each in plan.left
        if each.name and each.client and not each.is_broken
    ]
