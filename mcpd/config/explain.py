"""The report of ``mcpd --check``: the files, the effective values and the problems."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mcpd.config.entry import ServerEntry, as_in_a_table, masked
from mcpd.config.load import Loaded
from mcpd.config.problems import printable
from mcpd.config.remote import RemoteConfig, as_written
from mcpd.config.schema import ServerConfig
from mcpd.redact import MASK

_TOLD = ("command", "args", "env", "cwd", "url", "headers", "auth")
"""Keys with lines of their own."""


def report(loaded: Loaded) -> tuple[str, int]:
    """Return the report and the exit status: 2 if there are errors, otherwise 0."""
    lines = [*_files(loaded), "", *_servers(loaded)]
    if loaded.replaced:
        lines += ["", *_replaced(loaded)]
    if loaded.problems:
        lines += ["", "Problems:", *(f"  {printable(str(problem))}" for problem in loaded.problems)]
    lines += ["", _verdict(loaded)]
    return "\n".join(lines) + "\n", 2 if loaded.errors else 0


def _files(loaded: Loaded) -> Iterator[str]:
    yield "Files (a later one wins):"
    for file in loaded.files:
        refused = any(
            problem.file == file and problem.severity == "error" and not problem.key
            for problem in loaded.problems
        )
        if file not in loaded.found:
            state = "not there"
        elif refused:
            state = "cannot be used, see below"
        else:
            state = "read"
        yield f"  {printable(file)}: {state}"


def _servers(loaded: Loaded) -> Iterator[str]:
    if not loaded.entries and loaded.broken:
        yield "Servers: none could be read."
        return
    if not loaded.entries:
        yield "No servers. An entry looks like this, in mcp.json:"
        yield '  {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'
        return
    yield "Servers:"
    for entry in loaded.entries.values():
        yield f"  {printable(entry.name)}: {_state(entry)}"
        yield f"    from     {printable(entry.file)}, line {entry.line}"
        yield from (f"    {label:<8} {value}" for label, value in _values(entry))


def _state(entry: ServerEntry) -> str:
    if not entry.enabled:
        return "disabled"
    if entry.error is not None:
        return "cannot be started, see below"
    is_eager = entry.config is not None and entry.config.start == "eager"
    return "starts with the daemon" if is_eager else "starts when it is first used"


def _values(entry: ServerEntry) -> Iterator[tuple[str, str]]:
    values = masked(entry)
    if not values:
        return
    if entry.shown_remote is not None:
        yield from _remote(values)
        defaults = {**as_written(RemoteConfig(url="")), **as_in_a_table(ServerConfig())}
    else:
        yield "command", " ".join(_word(word) for word in (values["command"], *values["args"]))
        for name, value in values["env"].items():
            yield "env", f"{printable(name)}={_word(value)}"
        yield "cwd", printable(values["cwd"])
        defaults = as_in_a_table(ServerConfig())
    for key, value in values.items():
        if key in _TOLD or key == "enabled":
            continue
        if isinstance(value, dict):
            for inner, content in value.items():
                if content != defaults[key][inner]:
                    yield "setting", f"{key}.{inner} = {_setting(content)}"
        elif value != defaults[key]:
            yield "setting", f"{key} = {_setting(value)}"


def _remote(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "url", printable(values["url"])
    for name, value in values["headers"].items():
        yield "header", f"{printable(name)}: {printable(value)}"
    auth = values["auth"]
    if isinstance(auth, dict):
        more = (f"{key} = {_setting(value)}" for key, value in auth.items() if key != "type")
        auth = ", ".join((auth["type"], *more))
    yield "auth", auth


def _setting(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    return printable(msgspec.json.encode(value).decode())


def _word(text: str) -> str:
    """Quote a word as a shell wants it, unless all that is odd in it is a ``${VAR}``."""
    bare = text.replace("${", "").replace("}", "")
    is_plain = "${" in text and shlex.quote(bare) == bare
    return printable(text if is_plain or text == MASK else shlex.quote(text))


def _replaced(loaded: Loaded) -> Iterator[str]:
    yield "Replaced, as a whole, by a later entry of the same name:"
    for each in loaded.replaced:
        yield (
            f"  {printable(each.name)}: {printable(each.file)}, line {each.line}, "
            f"by {printable(each.by_file)}, line {each.by_line}"
        )


def _verdict(loaded: Loaded) -> str:
    errors = len(loaded.errors)
    warnings = len(loaded.problems) - errors
    if not loaded.problems:
        return "No errors."
    counts = f"{errors} {_plural('error', errors)}, {warnings} {_plural('warning', warnings)}."
    if loaded.broken:
        return f"{counts} A running daemon goes on with what it has until every file can be read."
    if errors:
        return f"{counts} Each changes only the entry or key it is about; all else works."
    return counts


def _plural(word: str, number: int) -> str:
    return word if number == 1 else word + "s"
