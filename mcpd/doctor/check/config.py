"""Checks the configuration: its problems, and whether the daemon has read its current state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcpd.config.load import Loaded
from mcpd.config.problems import Problem, printable
from mcpd.config.texts.secrets import is_secret_name
from mcpd.core.policy import containers
from mcpd.doctor.facts import Command, Files, Talk
from mcpd.doctor.finding import Finding, error, fine, note, warning
from mcpd.redact import MASK
from mcpd.supervise.refusals import counted

_TYPE = re.compile(r"[;:] (?:(if [^,;]*), )?type:? (.+)$", re.DOTALL)
"""The end of a message of mcpd that says what to type."""

_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)")


def check(files: Files, talk: Talk | None) -> Iterator[Finding]:
    """Yield the findings about the files and the programs that they start."""
    loaded = files.loaded
    runs = talk is not None and talk.hello is not None
    for problem in loaded.problems:
        yield _problem(problem, runs=runs)
    yield from _awaiting(loaded, talk)
    if not loaded.errors:
        read = ", ".join(map(printable, loaded.found)) or "there are none"
        yield fine("config", f"the configuration files can be used: {read}")
    if not loaded.entries and not loaded.broken:
        yield note(
            "no_servers",
            f"no servers are configured; files are looked for at {', '.join(loaded.files)}",
            "mcpctl init shows those of your clients; an entry is "
            '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}',
        )
    elif loaded.entries and not any(entry.enabled for entry in loaded.entries.values()):
        count, names = len(loaded.entries), ", ".join(loaded.entries)
        read = ", ".join(map(printable, loaded.found))
        yield note(
            "no_servers",
            f"of {count} servers none is enabled: {names}; read: {read}"
            if count > 1
            else f"the only server is disabled: {names}; read: {read}",
            "for one of them set enabled = true, and disabled = false where it is given",
        )
    yield from _replaced(loaded)
    if talk is not None and talk.listed is not None and files.is_daemons:
        yield from _stale(files, talk.listed, is_watching=loaded.daemon.watch)
    for command in files.commands:
        yield from _command(command)
    for name, entry in loaded.entries.items():
        if entry.enabled and files.masked.get(name):
            yield from _arguments(name, files.masked[name], printable(entry.file))


def _problem(problem: Problem, *, runs: bool) -> Finding:
    place = printable(problem.file) + ("" if problem.line is None else f":{problem.line}")
    text = problem.message
    remedy = f"correct {place}" + (", then: mcpctl reload" if runs else "")
    if known := _TYPE.search(text):
        text = text[: known.start()]
        remedy = f"{known[1]}: {known[2]}" if known[1] else known[2]
    message = ": ".join(filter(None, (place, problem.key, text)))
    if problem.severity == "warning":
        return warning("config_warning", message, remedy, problem.server)
    if problem.key or problem.server:
        return error("config_error", message, remedy, problem.server)
    return error("config_file", message, remedy)


def _awaiting(loaded: Loaded, talk: Talk | None) -> Iterator[Finding]:
    """Yield what became of variables that only the login shell may have; the daemon asks it."""
    listed = [] if talk is None or talk.listed is None else talk.listed["servers"]
    errors = {one["name"]: one["error"] for one in listed}
    for name, entry in loaded.entries.items():
        if not entry.awaits:
            continue
        if (text := errors.get(name)) is not None:
            remedy = "correct its entry, then: mcpctl reload"
            if known := _TYPE.search(text):
                text, remedy = text[: known.start()], known[2]
            yield error("config_error", text, remedy, name)
        elif name not in errors:
            names = ", ".join(entry.awaits)
            yield note(
                "variables_unknown",
                f"not set here: {names}; a daemon looks in the login shell for what it lacks",
                f"if that has it neither: export {entry.awaits[0]}=…",
                name,
            )


def _replaced(loaded: Loaded) -> Iterator[Finding]:
    for each in loaded.replaced:
        yield note(
            "entry_replaced",
            f"the entry at {printable(each.file)}:{each.line} does not count: the one at "
            f"{printable(each.by_file)}:{each.by_line} has the same name",
            "remove or rename one of them",
            each.name,
        )


def _stale(files: Files, listed: Mapping[str, Any], *, is_watching: bool) -> Iterator[Finding]:
    """Compare the files with what the daemon has read; secrets are masked on both sides."""
    if files.loaded.broken:
        return  # the daemon keeps what it has; the errors say so
    configured = [one for one in listed["servers"] if one.get("file") and "project" not in one]
    has = {one["name"]: one for one in configured}
    now = files.loaded.entries
    changed = [
        name
        for name, entry in now.items()
        if name in has
        and entry.error is None
        and has[name]["error"] is None
        and (entry.enabled, files.masked[name]) != (has[name]["enabled"], has[name]["config"] or {})
    ]
    changed += [name for name in {*now, *has} if (name in now) != (name in has)]
    if changed:
        why = "" if is_watching else " (watch = false, so nothing notices that)"
        yield warning(
            "config_not_reloaded",
            f"the files have changed since the daemon read them{why}: {', '.join(sorted(changed))}",
            "mcpctl reload",
        )


def _command(command: Command) -> Iterator[Finding]:
    name = command.server
    if command.trouble is not None:
        searched = command.searched
        yield error(
            "command_not_found",
            command.trouble.replace(counted(searched), ", ".join(searched)),
            command.hint or "correct `command`, then: mcpctl reload",
            name,
        )
    elif command.lacks is not None:
        yield error(
            "interpreter_not_found",
            f"{command.command!r} is there, but not {command.lacks!r}, which runs it",
            f"install {command.lacks}, or add its directory to PATH in the server's `env`",
            name,
        )


def _arguments(name: str, values: Mapping[str, Any], file: str) -> Iterator[Finding]:
    args = [str(arg) for arg in values.get("args") or ()]
    if any(_shows_secret(args, at) for at in range(len(args))):
        yield warning(
            "secret_in_arguments",
            "an argument looks like a secret, and every user of the machine sees arguments in `ps`",
            f"if the server can take it from a variable, move it to `env` or `env_file` in {file}",
            name,
        )
    for said in containers.advice(str(values.get("command", "")), args):
        what, _, remedy = said.partition(": ")
        yield warning("container_options", what, remedy, name)


def _shows_secret(args: Sequence[str], at: int) -> bool:
    """Return whether an argument is a secret, judged by how it is shown."""
    arg, before = args[at], args[at - 1] if at else ""
    if MASK in arg:
        return True
    variables = _VARIABLE.findall(arg)
    follows = before.startswith("-") and "=" not in before and is_secret_name(before)
    return any(map(is_secret_name, variables)) or (follows and bool(variables))
