"""``mcpctl http`` and ``mcpctl url``: whether clients reach the daemon over HTTP, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from mcpctl import completion, options
from mcpd import exits
from mcpd.errors import DaemonUnavailable

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.api.results import Reloaded

USUAL = "127.0.0.1:6273"
"""6273 spells MCPD."""


@click.group("http")
def http_command() -> None:
    """Let clients reach the daemon over HTTP.

    \b
    mcpctl http on
    mcpctl token create laptop
    mcpctl url
    """


@options.command("on", starts=False)
@click.option(
    "--listen",
    "addresses",
    multiple=True,
    metavar="ADDR",
    help=f"An address, such as {USUAL} or unix:/PATH; can be given several times.",
)
def on_command(app: App, addresses: tuple[str, ...]) -> int:
    """Write an address into the configuration, and have the daemon listen there.

    \b
    mcpctl http on
    mcpctl http on --listen 127.0.0.1:6273
    """
    from mcpd.config import edit
    from mcpd.config.addresses import parse

    for address in addresses:
        if parse(address) is None:
            raise click.UsageError(f"{address}: expected an address such as {USUAL} or unix:/PATH")
    wanted = addresses or edit.listening(app.config) or (USUAL,)
    return _set(app, wanted)


@options.command("off", starts=False)
def off_command(app: App) -> int:
    """Have the daemon listen for HTTP no more.

    \b
    mcpctl http off
    """
    return _set(app, ())


@options.command("url", starts=False)
@click.argument("server", required=False, shell_complete=completion.servers)
def url_command(app: App, server: str | None) -> int:
    """Print the URL of a server, or of all as one, for a client.

    \b
    mcpctl url
    mcpctl url files
    """
    from mcpd.config import edit

    addresses = edit.listening(app.config)
    path = "/mcp" if server is None else f"/mcp/{quote(server, safe='')}"
    urls = [f"http://{each}{path}" for each in addresses if not each.startswith("unix:")]
    if app.as_json:
        app.print_document({"urls": urls})
    elif urls:
        app.print(urls[0])
    elif addresses:
        app.note(f"the daemon listens on {addresses[0]}, which has no URL")
    else:
        app.note("the daemon does not listen for HTTP", "  mcpctl http on")
    return exits.DONE if urls else exits.NO_SERVER


for each in (on_command, off_command):
    http_command.add_command(each)


def _set(app: App, addresses: tuple[str, ...]) -> int:
    from mcpd.config import edit

    file = edit.set_listen(app.config, addresses)
    errors: list[str] = []
    is_applied = True
    try:
        with app.connect(start=False) as control:
            result: Reloaded = control.request("mcpd/reload", {})
            errors = result["errors"]
    except DaemonUnavailable:
        is_applied = False
    if app.as_json:
        app.print_document(
            {"file": file, "listen": list(addresses), "applied": is_applied, "errors": errors}
        )
    else:
        where = f"on: {', '.join(addresses)}" if addresses else "off"
        later = "" if is_applied else "; no daemon runs, the next one reads it"
        app.print_line(f"HTTP is {where} ({file}){later}")
        for error in errors:
            app.note(app.with_socket(error))
    return exits.USAGE if errors else exits.DONE
