"""``mcpctl read`` and ``prompt``: reading resources and prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcpctl import arguments, completion, content, failures, options

if TYPE_CHECKING:
    from mcpctl.context import App


@options.command("read", starts=True)
@click.argument("uri")
@click.option("--server", metavar="S", shell_complete=completion.servers, help="Ask this one.")
def read_command(app: App, uri: str, server: str | None) -> None:
    """Print a resource.

    \b
    mcpctl read file:///home/me/notes.txt --server files
    """
    params = {"uri": uri} if server is None else {"uri": uri, "server": server}
    who = failures.reported_by(server)
    with app.connect() as control, app.waiting(f"read {uri}") as on_wait, who:
        answer = control.exchange("mcpd/read", params, on_wait=on_wait)
    content.show_resource(app, uri, answer)


@options.command("prompt", starts=True, cls=options.WithArguments)
@click.argument("server", shell_complete=completion.servers)
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
def prompt_command(app: App, server: str, name: str, words: tuple[str, ...]) -> None:
    """Print a prompt with its arguments filled in.

    \b
    mcpctl prompt notes summarise style=short
    """
    given = {word.key: word.text for word in map(arguments.parse_word, words)}
    params: dict[str, Any] = {"server": server, "name": name}
    if given:
        params["arguments"] = given
    who = failures.reported_by(server)
    with app.connect() as control, app.waiting(f"prompt {server} {name}") as on_wait, who:
        answer = control.exchange("mcpd/prompt", params, on_wait=on_wait)
    content.show_prompt(app, f"{server}.{name}", answer)
