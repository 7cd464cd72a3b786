"""``mcpctl add`` and ``add-json``: servers in mcpd's own configuration."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from mcpctl import applying, options, questions
from mcpctl.adding.line import Line
from mcpctl.adding.words import AddCommand
from mcpctl.commands import test
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App


def _scope(_: click.Context, __: click.Parameter, value: str) -> str:
    if value == "local":
        raise click.BadParameter(
            "mcpd has no servers of one person in one project: user, or project for all who work"
            " on it."
        )
    return value


scope = click.option(
    "-s",
    "--scope",
    type=click.Choice(["user", "project", "local"]),
    default="user",
    callback=_scope,
    metavar="[user|project]",
    help="Your own configuration, or the .mcp.json of this directory.  [default: user]",
)
disabled = click.option("--disabled", is_flag=True, help="Add it switched off.")
testing = click.option(
    "--test/--no-test",
    "wants_test",
    default=None,
    help="Test it when it is added. Without either: asked on a terminal.",
)


@options.command("add", starts=True, cls=AddCommand)
@click.argument("words", nargs=-1, metavar="NAME [URL | -- COMMAND [ARG]...]")
@click.option(
    "-e",
    "--env",
    "env",
    multiple=True,
    metavar="K=V",
    help="A variable; K alone is taken from the environment when the server starts: ${K}.",
)
@click.option("-H", "--header", "headers", multiple=True, metavar="'K: V'", help="A header.")
@click.option("--bearer", metavar="TOKEN", help="A token for a URL, such as '${TOKEN}'.")
@click.option("--bearer-token-env-var", "bearer_variable", metavar="K", hidden=True)
@click.option("--url", hidden=True, metavar="URL")
@click.option("--cwd", metavar="DIR", help="Its directory.  [default: your home directory]")
@click.option(
    "--sharing",
    type=click.Choice(["auto", "shared", "session", "workspace"]),
    help="Who shares a process.",
)
@click.option(
    "--timeout", type=options.seconds, metavar="S", help="Longest wait for an answer to a call."
)
@click.option(
    "-t",
    "--transport",
    type=click.Choice(["stdio", "http", "sse", "streamable-http"]),
    metavar="[stdio|http|sse]",
    help="How it is reached; found out otherwise.",
)
@click.option("--include-tools", metavar="A,B", help="Only these tools; * stands for any text.")
@click.option("--exclude-tools", metavar="A,B", help="Not these tools.")
@scope
@disabled
@click.option(
    "--preset",
    metavar="PRESET",
    shell_complete=lambda *given: _preset_names(str(given[2])),
    help="A known server: mcpctl presets lists them.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="The servers in a file of any client, or in a snippet; - reads from stdin.",
)
@testing
def add_command(app: App, words: tuple[str, ...], **given: Any) -> int:
    """Add a server to your configuration.

    A running daemon has it at once. Texts may have variables (${NAME}), which are resolved when
    the server starts. With --preset, what stands after -- is what the preset asks for, then further
    arguments.

    \b
    mcpctl add files -- npx -y @modelcontextprotocol/server-filesystem ~/src
    mcpctl add tracker https://mcp.example.com/mcp --bearer '${TRACKER_TOKEN}'
    mcpctl add --preset github
    mcpctl add --preset filesystem notes -- ~/notes
    mcpctl add --from README-snippet.json
    """
    line = Line(words, given)
    wants_test = given["wants_test"]
    if given["source"] is not None and given["preset"] is not None:
        raise click.UsageError("--from and --preset both say what to add: leave one of them out.")
    if given["source"] is not None:
        entries = line.from_text(app, _text_of(given["source"]))
    elif given["preset"] is not None:
        entries, signs_in = line.from_preset(app)
        if signs_in:  # nothing to test before that
            status = _add(app, entries, given["scope"], wants_test=wants_test or False)
            app.note("to sign in", f"  mcpctl login {shlex.quote(next(iter(entries)))}")
            return status
    else:
        entries = line.typed()
    return _add(app, entries, given["scope"], wants_test=wants_test)


@options.command("add-json", starts=True)
@click.argument("name")
@click.argument("entry", metavar="JSON")
@scope
@disabled
@testing
def add_json_command(
    app: App, name: str, entry: str, scope: str, disabled: bool, wants_test: bool | None
) -> int:
    """Add a server from its entry, as a README has it.

    \b
    mcpctl add-json files '{"command": "uvx", "args": ["mcp-server-git"]}'
    """
    entries = Line((name,), {"disabled": disabled}).from_text(app, entry)
    return _add(app, entries, scope, wants_test=wants_test)


def _text_of(source: str) -> str:
    """Return the text of a file, ``-`` for stdin."""
    try:
        if source == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        with open(source, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{source} is not UTF-8 text") from None


def _preset_names(incomplete: str) -> list[str]:
    from mcpd.onboarding import presets

    return [name for name in presets.read() if name.startswith(incomplete)]


def _add(
    app: App, entries: dict[str, dict[str, Any]], scope: str, *, wants_test: bool | None
) -> int:
    """Write the entries, have a running daemon read them, and say so."""
    from mcpd.onboarding import changes, shown

    if wants_test and app.as_json:
        raise click.UsageError("--test prints no JSON: mcpctl test NAME --json does.")
    for name, entry in entries.items():
        for problem in changes.faults(name, entry, os.environ):
            told = f"{problem.key}: {problem.message}"
            if problem.severity == "error":
                raise ConfigError(told)
            app.note(told)
    is_project = scope == "project"
    project = os.getcwd() if is_project else None
    file = changes.Scope(app.config, project).add(entries)
    names = list(entries)
    applied = applying.reload(app)
    if app.as_json:
        app.print_document(
            {
                "file": file,
                "servers": names,
                "applied": applied.is_applied,
                "errors": applied.errors,
            }
        )
        return exits.DONE
    app.print_line(f"added {', '.join(names)} to {file}")
    for name, entry in entries.items():
        if clear := shown.secrets(entry):
            where = ", ".join(clear)
            app.note(f"{name} has a secret in the clear ({where}): nobody else can read {file}")
    if is_project:
        app.note("it runs here once you have trusted this directory", "  mcpctl trust")
        return exits.DONE
    testable = [
        name
        for name, entry in entries.items()
        if entry.get("enabled", True) and not entry.get("disabled")
    ]
    if applied.is_applied:
        unusable = applying.note(app, file, names)
        testable = [name for name in testable if name not in unusable]
    else:
        _note_unset(app, entries)
    if wants_test is None:
        wants_test = bool(testable) and questions.can_ask(app)
        wants_test = wants_test and questions.confirmed(f"Test {', '.join(testable)} now?")
    status = exits.DONE
    for name in testable if wants_test else ():
        with app.connect() as control:
            status = status or test.report(app, control, name)
    return status


def _note_unset(app: App, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Note which variables a daemon that is started here would not find."""
    from mcpd.onboarding import changes

    for name, entry in entries.items():
        for variable in changes.variables(entry):
            if variable not in os.environ:
                app.note(
                    f"{name}: {variable} is not set here; what counts is the environment of the"
                    " daemon, and that of your login shell"
                )
