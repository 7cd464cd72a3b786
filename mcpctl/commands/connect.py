"""``mcpctl connect`` for ``--help`` and completion; ``mcpctl.__main__`` runs the bridge."""

from __future__ import annotations

import click

from mcpctl import completion


@click.command("connect", context_settings={"ignore_unknown_options": True})
@click.argument(
    "words", nargs=-1, metavar="[SERVER | -- COMMAND ARG...]", shell_complete=completion.servers
)
@click.option(
    "--linger", type=float, metavar="S", help="Seconds to wait for answers after stdin ends."
)
@click.option("--profile", metavar="NAME", help="Only what this profile lets through.")
@click.option("--no-start", is_flag=True, help="Start no daemon: exit with 3 if none runs.")
def connect_command(
    words: tuple[str, ...], linger: float | None, profile: str | None, no_start: bool
) -> None:
    """Bridge stdin and stdout to a server, for an MCP client.

    Without SERVER: all enabled servers, with tools named server__tool. With -- COMMAND: a
    server that no configuration names, shared by all who run the same command. The session
    outlives the daemon: it continues with the next one.

    \b
    mcpctl connect files
    mcpctl connect
    mcpctl connect -- uvx mcp-server-git
    """
