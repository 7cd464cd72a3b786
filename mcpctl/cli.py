"""The command line: the commands, and how an error ends as a message and an exit status."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import sys
from typing import Any

import click

from mcpctl import failures, render
from mcpctl.context import App
from mcpd import __version__, exits
from mcpd.errors import McpdError

COMMANDS = {
    "init": "mcpctl.commands.init",
    "status": "mcpctl.commands.status",
    "list": "mcpctl.commands.config",
    "tools": "mcpctl.commands.catalog",
    "resources": "mcpctl.commands.catalog",
    "prompts": "mcpctl.commands.catalog",
    "read": "mcpctl.commands.use",
    "prompt": "mcpctl.commands.use",
    "call": "mcpctl.commands.call",
    "connect": "mcpctl.commands.connect",
    "approvals": "mcpctl.commands.approvals",
    "approve": "mcpctl.commands.approvals",
    "deny": "mcpctl.commands.approvals",
    "start": "mcpctl.commands.servers",
    "stop": "mcpctl.commands.servers",
    "restart": "mcpctl.commands.servers",
    "test": "mcpctl.commands.test",
    "up": "mcpctl.commands.daemon",
    "down": "mcpctl.commands.daemon",
    "reload": "mcpctl.commands.config",
    "logs": "mcpctl.commands.logs",
    "events": "mcpctl.commands.logs",
    "scan": "mcpctl.commands.scan",
    "import": "mcpctl.commands.imports",
    "adopt": "mcpctl.commands.adopt",
    "release": "mcpctl.commands.release",
    "pins": "mcpctl.commands.pins",
    "inspect": "mcpctl.commands.inspect",
    "audit": "mcpctl.commands.audit",
    "doctor": "mcpctl.commands.doctor",
    "http": "mcpctl.commands.http",
    "url": "mcpctl.commands.http",
    "token": "mcpctl.commands.token",
    "add": "mcpctl.commands.add",
    "add-json": "mcpctl.commands.add",
    "presets": "mcpctl.commands.presets",
    "remove": "mcpctl.commands.entries",
    "enable": "mcpctl.commands.entries",
    "disable": "mcpctl.commands.entries",
    "edit": "mcpctl.commands.edit",
    "secret": "mcpctl.commands.secret",
    "trust": "mcpctl.commands.trust",
    "untrust": "mcpctl.commands.trust",
    "login": "mcpctl.commands.login",
    "logout": "mcpctl.commands.login",
    "service": "mcpctl.commands.service",
    "completion": "mcpctl.commands.shell",
}
"""The module of each command, in which its function is called ``COMMAND_command``, with ``_`` for
``-``."""

ON_COMMANDS = ("--json", "--no-start")
"""Options of every command, but not of ``mcpctl`` itself."""

COMPLETE = "_MCPCTL_COMPLETE"
"""Environment variable that a shell sets to have a command line completed."""


class Commands(click.Group):
    """The commands, each imported when it is used, so that a call does not load the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of ``--help``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command; explain where an option of a command goes."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            if option not in ON_COMMANDS or not any(word in COMMANDS for word in given):
                raise
            typed = shlex.join(["mcpctl", *(word for word in given if word != option), option])
            ctx.fail(f"{option} stands after the command: {typed}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` begin with, or suggest similar ones."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=2)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"There is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has its own --help, with an example.",
)
@click.option("--socket", metavar="PATH", help="The daemon's socket.  [env: MCPD_SOCKET]")
@click.option(
    "--config",
    metavar="FILE",
    help="The configuration for a daemon that this command starts.  [env: MCPD_CONFIG]",
)
@click.version_option(__version__, "--version", message="mcpctl %(version)s")
@click.pass_context
def group(context: click.Context, socket: str | None, config: str | None) -> None:
    """Control mcpd, the one daemon for every MCP server on this machine.

    \b
    mcpctl status                          what runs
    mcpctl tools                           what it offers
    mcpctl call files.read_file path=x.md  use it
    """
    context.obj = App(socket, config)


def main(argv: list[str]) -> int:
    """Run ``mcpctl`` and return its exit status."""
    signal.signal(signal.SIGTERM, _terminated)
    _never_fail_to_print()
    socket: str | None = None
    try:
        if COMPLETE in os.environ:
            group.main(argv, prog_name="mcpctl", complete_var=COMPLETE)
        # Not main(): it would decide by itself how interrupts and closed pipes end.
        with group.make_context("mcpctl", list(argv)) as context:
            socket = context.params["socket"]
            status = group.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else exits.DONE
    except BrokenPipeError:
        return _quietly()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except click.ClickException as error:
        return _complain(argv, failures.usage(error.format_message()), wrong=error)
    except McpdError as error:
        return _complain(argv, error, socket)
    except Exception:
        import traceback

        traceback.print_exc()
        sys.stderr.write("mcpctl: this is a bug of ours; please report it with the lines above\n")
        return exits.BUG


def _complain(
    argv: list[str],
    error: McpdError,
    socket: str | None = None,
    wrong: click.ClickException | None = None,
) -> int:
    """Report an error, as text or as JSON, and return the exit status."""
    try:
        if "--json" in argv:
            sys.stdout.write(render.document(failures.document(error, socket), None, sys.stdout))
            sys.stdout.flush()
        elif wrong is not None:
            wrong.show()
        else:
            text = render.message(failures.lines(error, socket), sys.stderr)
            sys.stderr.write(f"mcpctl: {text}\n")
    except BrokenPipeError:
        _quietly()
    return exits.of_error(error)


def _quietly() -> int:
    """Return 0 after a reader closed the pipe; keep Python from reporting that at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    return exits.DONE


def _never_fail_to_print() -> None:
    """Escape characters that the encoding of stdout lacks; JSON stays valid that way."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _terminated(*_: object) -> None:
    raise SystemExit(exits.TERMINATED)
