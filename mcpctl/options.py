"""Options that commands share, and the decorator that makes a function a command."""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable
from typing import Any

import click

from mcpctl import completion
from mcpctl.context import App

Function = Callable[..., Any]


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise click.BadParameter(f"{text} is no number of seconds above 0.")
    return value


NO_START = "Start no daemon: exit with 3 if none runs."


class WithArguments(click.Command):
    """A command that takes ``KEY=VALUE`` and explains this if an argument is given as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; raise ``UsageError`` with the word that may be meant."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from difflib import get_close_matches

            meant = _as_argument(error.option_name, given)
            is_slip = get_close_matches(error.option_name, error.possibilities or (), cutoff=0.85)
            if meant is None or is_slip:
                raise
            ctx.fail(
                f"No such option {error.option_name!r}. "
                f"An argument of the tool is written without dashes: {meant}"
            )


def _as_argument(option: str, args: list[str]) -> str | None:
    """Return ``--limit=5`` or ``--limit 5`` as ``limit=5``; ``None`` before a tool is named."""
    at = next((n for n, word in enumerate(args) if word.partition("=")[0] == option), None)
    key = option.lstrip("-")
    if at is None or not any(not word.startswith("-") for word in args[:at]):
        return None
    if not key[:1].isalpha():
        return None
    _, equals, value = args[at].partition("=")
    if not equals:
        following = args[at + 1] if at + 1 < len(args) else "-"
        value = "true" if following.startswith("-") or "=" in following else following
    return shlex.quote(f"{key}={value}")


def command(
    name: str,
    *,
    starts: bool,
    no_start_help: str = NO_START,
    cls: type[click.Command] = click.Command,
) -> Callable[[Function], click.Command]:
    """Make ``f(app, …)`` the command ``name``, with ``--json`` and ``--no-start``.

    ``starts``: whether it starts a daemon where none runs.
    """

    def wrap(function: Function) -> click.Command:
        @functools.wraps(function)
        def run(*args: Any, as_json: bool, no_start: bool, **kwargs: Any) -> Any:
            app = click.get_current_context().find_object(App)
            assert app is not None  # the group makes it
            app.as_json = as_json
            app.may_start = starts and not no_start
            return function(app, *args, **kwargs)

        made = click.command(name, cls=cls)(run)
        made.params += [
            click.Option(
                ["--json", "as_json"], is_flag=True, help="Print JSON, and nothing else, on stdout."
            ),
            click.Option(
                ["--no-start"],
                is_flag=True,
                hidden=not starts,  # accepted by all, so that scripts can always pass it
                help=no_start_help,
            ),
        ]
        return made

    return wrap


def servers(function: Function) -> Function:
    """Add an argument for any number of server names."""
    return click.argument(
        "servers", nargs=-1, metavar="[SERVER]...", shell_complete=completion.servers
    )(function)


def server(function: Function) -> Function:
    """Add an argument for an optional server name."""
    return click.argument(
        "server", required=False, metavar="[SERVER]", shell_complete=completion.servers
    )(function)


all_servers = click.option("--all", "is_all", is_flag=True, help="All enabled servers.")
schema = click.option("--schema", is_flag=True, help="Show what arguments each one takes.")
search = click.option(
    "--search", metavar="TEXT", help="Only those with TEXT in their name or description."
)
lines = click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Number of last lines to print.",
)
follow = click.option("-f", "--follow", is_flag=True, help="Keep printing new entries.")
