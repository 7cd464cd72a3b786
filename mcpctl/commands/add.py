"""``mcpctl add`` and ``add-json``: servers in mcpd's own configuration."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mcpctl import applying, options, questions
from mcpctl.commands import test
from mcpd import exits
from mcpd.errors import ConfigError

if TYPE_CHECKING:
    from mcpctl.context import App
    from mcpd.onboarding.presets import Preset

ENV = ("-e", "--env")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
URL = re.compile(r"https?://\S+")
BEFORE = "mcpctl.add.before"
"""Where the context has the number of words before ``--``."""

PATHS = ("DIRECTORY", "FILE")
"""Needs of presets that are paths: the daemon has another directory than this command."""


class AddCommand(click.Command):
    """A command whose options end where the command of the server begins, ``--`` or not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--`` before the server's command, where it was typed without."""
        separated, before = self._separated(args)
        ctx.meta[BEFORE] = before
        return super().parse_args(ctx, separated)

    def _separated(self, args: list[str]) -> tuple[list[str], int]:
        """Return the words with ``--``, and how many of those before it are no options."""
        takes_value = {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, click.Option)
            for name in option.opts
        }
        done: list[str] = []
        left = list(args)
        before, last = 0, ""
        while left:
            word = left.pop(0)
            if word == "--":
                return [*done, word, *left], before
            if word.startswith("-") and word != "-":
                done.append(word)
                last = word if takes_value.get(word) else ""
                if last and left:
                    done.append(left.pop(0))
            elif last in ENV and ASSIGNMENT.match(word):  # -e A=1 B=2
                done += [last, word]
            elif before and not URL.fullmatch(word):
                if "--" in left:  # clients whose commands begin without it drop the first one
                    left.remove("--")
                return [*done, "--", word, *left], before
            else:
                done.append(word)
                before += 1
        return done, before


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


class Line:
    """What the command line says of the servers to add."""

    def __init__(self, words: Sequence[str], given: Mapping[str, Any]) -> None:
        self._words = list(words)
        self._given = given
        self._used: set[str] = set()
        """Variables of --env that stand elsewhere in the entry."""

    def typed(self) -> dict[str, dict[str, Any]]:
        """Return the server whose command or URL was typed."""
        url = self._given["url"]
        rest = self._words[1:]
        if not self._words or not (rest or url):
            raise click.UsageError(
                "Say what the server is called, and its command or URL: mcpctl add NAME -- COMMAND"
            )
        if url is None and len(rest) == 1 and URL.fullmatch(rest[0]):
            url = rest.pop()
        if url is not None and rest:
            raise click.UsageError("A server has a URL or a command, but not both.")
        transport = self._given["transport"]
        if url is None and transport not in (None, "stdio"):
            raise click.UsageError(f"--transport {transport} is for a URL: http://… or https://…")
        if url is not None and transport == "stdio":
            raise click.UsageError("--transport stdio is for a command, and this is a URL.")
        entry: dict[str, Any]
        if url is not None:
            entry = {"url": url}
        else:
            is_project = self._given["scope"] == "project"
            program = rest[0] if is_project or "/" not in rest[0] else _absolute(rest[0])
            entry = {"command": program, **({"args": rest[1:]} if rest[1:] else {})}
        return {self._words[0]: self._with_options(entry)}

    def from_preset(self, app: App) -> tuple[dict[str, dict[str, Any]], bool]:
        """Return a known server, and whether a person signs in to it.

        What it needs is given, or asked for on a terminal.
        """
        from mcpd.onboarding import presets

        known = presets.read()
        name = self._given["preset"]
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(
                f"There is no preset {name!r}.{meant} mcpctl presets lists them."
            )
        preset = known[name]
        before = click.get_current_context().meta.get(BEFORE, 0)
        called, more = (self._words[0] if before else name), self._words[before:]
        if before > 1 or called.startswith(("/", "~", ".")):
            raise click.UsageError(
                f"Write -- before the arguments: add --preset {name} [NAME] -- …"
            )
        variables = self._variables()
        token = {}
        if preset.bearer is not None and self._given["bearer"]:
            token = {preset.bearer: self._given["bearer"]}
        elif preset.bearer in variables:
            token = {preset.bearer: variables[preset.bearer]}
        values = token | _needed(app, name, preset, more, variables | token)
        self._used = set(token)
        entry = preset.entry(values)
        further = more[len(preset.places) :]
        if further and preset.url is not None:
            raise click.UsageError(f"{name} is reached by URL, and takes no arguments.")
        if further:
            entry["args"] += further
        return {called: self._with_options(entry)}, preset.signs_in

    def from_text(self, app: App, text: str) -> dict[str, dict[str, Any]]:
        """Return the servers in a text, in any client's format."""
        from mcpd.onboarding.clients import snippet

        if not text.strip():
            raise ConfigError("there is no text to read a server from")
        found = snippet.read(text)
        if len(self._words) > 1:
            raise click.UsageError(f"{self._words[1]}: the text has the whole entry.")
        if not any(isinstance(one.content, dict) for one in found):
            raise ConfigError("there is no server in the text: neither a command nor an address")
        named = self._words[0] if self._words else ""
        if named and len(found) > 1:
            raise click.UsageError(f"There are {len(found)} servers, and only one can be {named}.")
        entries: dict[str, dict[str, Any]] = {}
        left: list[str] = []
        for one in found:
            name = named or one.name
            if one.why_not is not None:
                left.append(f"{name or 'the server'}: {one.why_not}")
                continue
            if not name:
                raise click.UsageError("This is an entry without a name: say one, as NAME.")
            for note in one.notes:
                app.note(f"{name}: {note}")
            entries[name] = self._with_options(dict(one.entry))
        if left:
            raise ConfigError("; ".join(left))
        return entries

    # -- options -----------------------------------------------------------------------------------

    def _with_options(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry with what the options say."""
        given = self._given
        is_remote = "url" in entry
        env = {key: text for key, text in self._variables().items() if key not in self._used}
        if env:
            if is_remote:
                raise click.UsageError("--env is for a command; a URL has --header and --bearer.")
            entry["env"] = {**entry.get("env", {}), **env}
        if given.get("cwd"):
            if is_remote:
                raise click.UsageError("--cwd is for a command, and not for a URL.")
            entry["cwd"] = _absolute(given["cwd"])
        if headers := self._headers():
            if not is_remote:
                raise click.UsageError(
                    "--header and --bearer are for a URL, and not for a command."
                )
            entry["headers"] = {**entry.get("headers", {}), **headers}
        if is_remote and given.get("transport"):
            entry["type"] = given["transport"].replace("streamable-", "")
        if given.get("sharing"):
            entry["sharing"] = given["sharing"]
        if given.get("timeout"):
            timeout = given["timeout"]
            entry["call_timeout"] = int(timeout) if timeout.is_integer() else timeout
        for option, key in (("include_tools", "allow"), ("exclude_tools", "deny")):
            if given.get(option):
                patterns = [name.strip() for name in given[option].split(",")]
                entry["tools"] = {**entry.get("tools", {}), key: patterns}
        if given.get("disabled"):
            entry["enabled"] = False
        return entry

    def _variables(self) -> dict[str, str]:
        found = {}
        for text in self._given.get("env") or ():
            name, equals, value = text.partition("=")
            if not NAME.fullmatch(name):
                raise click.UsageError(f"--env {name}: expected a variable, K=V or K.")
            found[name] = value if equals else f"${{{name}}}"
        return found

    def _headers(self) -> dict[str, str]:
        found = {}
        for text in self._given.get("headers") or ():
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise click.UsageError(f"--header {name.strip()}: expected a header, 'K: V'.")
            found[name.strip()] = value.strip()
        bearer = self._given.get("bearer")
        if self._given.get("bearer_variable"):
            bearer = f"${{{self._given['bearer_variable']}}}"
        if bearer:
            found["Authorization"] = f"Bearer {bearer}"
        return found


def _needed(
    app: App, name: str, preset: Preset, words: Sequence[str], variables: Mapping[str, str]
) -> dict[str, str]:
    """Return what a preset needs, by name: given, in the environment, or asked for."""
    values = dict(zip(preset.places, words, strict=False))
    for need, what in preset.needs.items():
        if need in values or need in variables:
            continue
        is_argument = need in preset.places
        if not is_argument and need in os.environ:
            app.note(f"{name} takes {need} from the environment")
            continue
        if not questions.can_ask(app):
            how = f"-- {need}" if is_argument else f"--env {need}=…"
            raise click.UsageError(
                f"{name} needs {need}: {what}. For example: mcpctl add --preset {name} {how}"
            )
        app.note(f"{name} needs {need}: {what}")
        if is_argument:
            values[need] = questions.answer(need)
        elif typed := questions.answer(
            f"{need} (not shown; Enter: taken from the environment)", is_secret=True, default=""
        ):
            values[need] = typed.replace("$", "$$")
    for need in PATHS:
        if need in values:
            values[need] = _absolute(values[need])
    return values


def _absolute(path: str) -> str:
    """Return a path as it means the same in another directory."""
    return path if path.startswith(("/", "~", "$")) else os.path.abspath(path)


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
