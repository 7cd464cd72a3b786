"""``mcpctl completion``."""

from __future__ import annotations

import click

LINES = {
    "bash": 'eval "$(_MCPCTL_COMPLETE=bash_source mcpctl)"',
    "zsh": 'eval "$(_MCPCTL_COMPLETE=zsh_source mcpctl)"',
    "fish": "_MCPCTL_COMPLETE=fish_source mcpctl | source",
}
"""What a shell's start-up file has to run."""


@click.command("completion")
@click.argument("shell", type=click.Choice(list(LINES)))
def completion_command(shell: str) -> None:
    """Print the line that makes a shell complete mcpctl.

    \b
    mcpctl completion bash >> ~/.bashrc
    mcpctl completion fish >> ~/.config/fish/config.fish
    """
    click.echo(LINES[shell])
