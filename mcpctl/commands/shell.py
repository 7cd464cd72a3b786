"""``mcpctl completion``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpctl import options

if TYPE_CHECKING:
    from mcpctl.context import App

LINES = {
    "bash": 'eval "$(_MCPCTL_COMPLETE=bash_source mcpctl)"',
    "zsh": 'eval "$(_MCPCTL_COMPLETE=zsh_source mcpctl)"',
    "fish": "_MCPCTL_COMPLETE=fish_source mcpctl | source",
}
"""The line that a shell's start-up file runs."""


@options.command("completion", starts=False)
@click.argument("shell", type=click.Choice(list(LINES)))
def completion_command(app: App, shell: str) -> None:
    """Print the line that makes a shell complete mcpctl.

    \b
    mcpctl completion bash >> ~/.bashrc
    mcpctl completion fish >> ~/.config/fish/config.fish
    """
    if app.as_json:
        app.print_document({"shell": shell, "line": LINES[shell]})
    else:
        app.print(LINES[shell])
