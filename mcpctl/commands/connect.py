"""``mcpctl connect`` as ``--help`` and completion see it; ``__main__`` runs the bridge itself."""

from __future__ import annotations

import click

from mcpctl import completion


@click.command("connect", context_settings={"ignore_unknown_options": True})
@click.argument(
    "words", nargs=-1, metavar="[SERVER | -- COMMAND ARG...]", shell_complete=completion.servers
)
@click.option("--linger", type=float, metavar="S", help="Seconds for answers after stdin ends.")
@click.option("--no-start", is_flag=True, help="Start no daemon: where none runs, end with 3.")
def connect_command(words: tuple[str, ...], linger: float | None, no_start: bool) -> None:
    """Bridge stdin and stdout to a server: what an MCP client runs.

    Without a server: all enabled ones, their tools named server__tool. With -- COMMAND: a
    server that is in no configuration, shared with everyone who runs the same command.
    It outlives the daemon: when that is replaced, or dies, it goes on with the next one.

    \b
    mcpctl connect files
    mcpctl connect
    mcpctl connect -- uvx mcp-server-git
    """
