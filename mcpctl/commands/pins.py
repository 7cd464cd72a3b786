"""``mcpctl pins``: which definitions were approved, what has changed since, and accepting that."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mcpctl import completion, failures, options, render
from mcpctl.definitions import differences

if TYPE_CHECKING:
    from mcpctl.context import App

Item = dict[str, Any]
Server = dict[str, Any]

HEADER = ["SERVER", "PIN", "STATE", "DEFINITION", "VERSION", "SINCE"]
LEAST_HASH = 12  # characters of a hash that name it


class PinCommands(click.Group):
    """The commands below ``pins``; without one of them it shows the pins."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line."""
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("pins", cls=PinCommands)
def pins_command() -> None:
    """Show which definitions have changed since they were approved.

    What a server listed first counts as approved. `mcpctl pins` is `mcpctl pins show`.

    \b
    mcpctl pins
    mcpctl pins diff files
    mcpctl pins accept files.read_file
    """


@options.command("show", starts=False)
@options.server
def show_command(app: App, server: str | None) -> None:
    """Show what differs from what was approved, of one server or of all.

    \b
    mcpctl pins show files
    """
    found = _fetch(app, server)
    if app.as_json:
        app.print_document({"servers": found})
        return
    rows = [row for each in found for row in _rows(each)]
    if not rows:
        app.note("no servers")
        return
    app.print_table(HEADER, rows)
    waiting = [each["name"] for each in found if _waiting(each)]
    if waiting:
        app.print("\n" + app.with_socket(f"to see it: mcpctl pins diff {waiting[0]}"))
    for each in found:
        if each["lost"]:
            app.note(f"what was approved of {each['name']} cannot be read; mcpctl doctor")


@options.command("diff", starts=False)
@click.argument(
    "target", required=False, metavar="[SERVER[.TOOL]]", shell_complete=completion.servers
)
def diff_command(app: App, target: str | None) -> None:
    """Show what has changed in definitions: words, parameters, hints.

    What cannot be seen is shown as ⟨U+200B⟩.

    \b
    mcpctl pins diff files
    mcpctl pins diff files.read_file
    """
    chosen = _chosen(app, [] if target is None else [target])
    if app.as_json:
        app.print_document({"servers": chosen})
        return
    if not any(each["items"] for each in chosen):
        app.note("nothing differs from what was approved")
        return
    _show_differences(app, chosen)
    names = [each["name"] for each in chosen if each["items"]]
    app.print(app.with_socket(f"to accept it: mcpctl pins accept {target or names[0]}"))


@options.command("accept", starts=False)
@click.argument(
    "targets", nargs=-1, metavar="[SERVER[.TOOL]]...", shell_complete=completion.servers
)
@click.option("--all", "is_all", is_flag=True, help="All that differs.")
@click.option(
    "--hash", "digest", metavar="H", help="Accept without asking, if it is this that differs."
)
def accept_command(app: App, targets: tuple[str, ...], is_all: bool, digest: str | None) -> None:
    """Approve what differs, after it was shown.

    What is accepted is what was shown: a definition that changes meanwhile is refused. Without a
    terminal --hash says what was looked at; `mcpctl pins diff` prints it.

    \b
    mcpctl pins accept files
    mcpctl pins accept files.read_file --hash 3f2a9c41d07b
    """
    if not targets and not is_all:
        raise click.UsageError("name a server, or SERVER.TOOL, or give --all")
    if digest is not None and len(digest) < LEAST_HASH:
        raise click.UsageError(f"--hash has at least {LEAST_HASH} characters")
    chosen = [each for each in _chosen(app, list(targets)) if each["items"]]
    if not chosen:
        if app.as_json:
            app.print_document({"servers": []})
        else:
            app.note("nothing differs from what was approved")
        return
    if digest is not None:
        if not _hash(chosen).startswith(digest):
            raise failures.usage("this is not what was shown; look at it again: mcpctl pins diff")
    elif not (sys.stdin.isatty() and render.is_terminal(sys.stdout)):
        raise click.UsageError("there is no terminal to ask at; give --hash, see mcpctl pins diff")
    else:
        _show_differences(app, chosen)
        if not click.confirm("Accept this?", default=False):
            raise click.Abort
    accepted = []
    with app.connect() as control:
        for server in chosen:
            items = [
                {name: item[name] for name in ("kind", "name", "hash")} for item in server["items"]
            ]
            params = {"server": server["name"], "items": items}
            accepted.append(control.request("mcpd/pin_accept", params))
    if app.as_json:
        app.print_document({"servers": accepted})
        return
    for each in accepted:
        count = len(each["accepted"])
        what = "1 definition" if count == 1 else f"{count} definitions"
        app.print_line(f"accepted {what} of {each['server']}")


@options.command("export", starts=False)
@options.server
def export_command(app: App, server: str | None) -> None:
    """Print the approved definitions as JSON.

    \b
    mcpctl pins export files
    """
    servers = [
        {
            "name": each["name"],
            "version": each["approved_version"],
            "definitions": [
                {name: item[name] for name in ("kind", "name", "hash")}
                | {"definition": item["approved"]}
                for item in each["items"]
                if item["approved"] is not None
            ],
        }
        for each in _fetch(app, server, definitions=True)
    ]
    app.print_document({"servers": servers})


for _each in (show_command, diff_command, accept_command, export_command):
    pins_command.add_command(_each)


def _fetch(app: App, server: str | None, *, definitions: bool = False) -> list[Server]:
    params: dict[str, Any] = {"definitions": definitions}
    if server is not None:
        params["servers"] = [server]
    with app.connect() as control:
        found: list[Server] = control.request("mcpd/pins", params)["servers"]
    return found


def _waiting(server: Server) -> list[Item]:
    return [item for item in server["items"] if item["state"] != "approved"]


def _chosen(app: App, targets: list[str]) -> list[Server]:
    """Return what differs of servers, with its findings; of all servers without a target."""
    with app.connect() as control:
        found = control.request("mcpd/pins", {"definitions": True})["servers"]
        inspected = control.request("mcpd/inspect", {})["servers"]
    findings = {each["name"]: each["findings"] for each in inspected}
    names = [each["name"] for each in found]
    wanted = [_target(target, names) for target in targets]
    chosen = []
    for server in found:
        own = [item for name, item in wanted if name == server["name"]]
        if wanted and not own:
            continue
        is_whole = not wanted or None in own
        items = [item for item in _waiting(server) if is_whole or _label(item) in own]
        for missing in {*own} - {None} - {_label(item) for item in server["items"]}:
            raise failures.usage(
                f"{server['name']} has no definition {missing!r}", kind="tool_not_found"
            )
        for item in items:
            item["findings"] = [
                each
                for each in findings.get(server["name"], ())
                if (each["kind"], each["name"]) == (item["kind"], item["name"])
            ]
        chosen.append({**server, "items": items, "hash": _hash([{**server, "items": items}])})
    return chosen


def _target(target: str, names: list[str]) -> tuple[str, str | None]:
    """Return the server of ``SERVER[.TOOL]``, and the name of its definition if there is one."""
    if target in names:
        return target, None
    for name in sorted(names, key=len, reverse=True):
        if target.startswith(f"{name}."):
            return name, target[len(name) + 1 :]
    raise failures.usage(f"there is no server {target!r}", kind="server_not_found", near=names[:3])


def _label(item: Item) -> str:
    """Return the name of a definition; the instructions of a server have no other."""
    return str(item["name"] or item["kind"])


def _hash(servers: list[Server]) -> str:
    """Return what stands for all that is shown: of one definition its hash."""
    items = [
        (server["name"], item["kind"], item["name"], item["hash"])
        for server in servers
        for item in server["items"]
    ]
    if len(items) == 1 and items[0][3]:
        return str(items[0][3])
    text = "".join("\0".join(each) + "\n" for each in sorted(items))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _rows(server: Server) -> Iterator[list[render.Cell]]:
    waiting = _waiting(server)
    version, before = server["version"], server["approved_version"]
    change = f"{before} → {version}" if version and before and version != before else version
    change = change or before or "-"
    if not waiting:
        count = len(server["items"])
        state = "cannot be read" if server["lost"] else "approved" if count else "-"
        what = "1 definition" if count == 1 else f"{count} definitions"
        yield [server["name"], server["pin"], state, what, change, "-"]
    for item in waiting:
        parts = f" ({', '.join(item['parts'])})" if item["parts"] else ""
        held = ", held" if item["held"] else ""
        colour = "red" if item["held"] else "yellow"
        what = f"{item['kind']} {item['name']}".strip()
        if "was" in item:
            what += f", was {item['was']}"
        since = "-" if item["since"] is None else render.moment(item["since"])
        state = f"{item['state']}{parts}{held}"
        yield [server["name"], server["pin"], (state, colour), render.revealed(what), change, since]


def _show_differences(app: App, servers: list[Server]) -> None:
    for server in servers:
        for item in server["items"]:
            name = f"{server['name']}.{item['name']}" if item["name"] else server["name"]
            parts = f": {', '.join(item['parts'])}" if item["parts"] else ""
            was = f", was {item['was']}" if "was" in item else ""
            held = ", held" if item["held"] else ""
            title = f"{name} ({item['kind']}) {item['state']}{was}{parts}{held}"
            app.print_heading(render.revealed(render.one_line(title)), "yellow")
            for finding in item["findings"]:
                place = f" in {finding['place']}" if finding["place"] else ""
                said = f"  {finding['weight']}: {finding['class']}{place}: {finding['evidence']}"
                app.print(render.revealed(render.one_line(said)))
            for line in differences(item["approved"], item["current"]):
                app.print(f"  {render.revealed(line)}")
            app.print(f"  hash {item['hash'][:16] or '-'}\n")
        if len(server["items"]) > 1:
            app.print(f"hash of all of {render.revealed(server['name'])}: {server['hash'][:16]}")
