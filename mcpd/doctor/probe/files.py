"""Reads the configuration as a daemon would, and searches for the programs that it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from mcpd.config.entry import masked
from mcpd.config.load import load
from mcpd.config.schema import ResolvedCommand
from mcpd.doctor.facts import Command, Files
from mcpd.errors import SpawnFailed
from mcpd.supervise.refusals import cwd_missing
from mcpd.supervise.spawn import build_environment, resolve


def files(
    config: str | None, env: Mapping[str, str], *, is_daemons: bool, path: str | None
) -> Files:
    """Read the files that a daemon with ``env`` and ``--config CONFIG`` reads.

    ``path`` is the PATH of servers whose entries do not set one.
    """
    loaded = load(config, env, login=None)
    base = {**env, "PATH": path} if path is not None else env
    commands = []
    for entry in loaded.entries.values():
        launch = entry.launch
        if entry.enabled and entry.config is not None and launch is not None:
            if launch.of_workspace:  # its program depends on the workspace
                continue
            commands.append(_command(entry.name, launch, base))
    values = {name: _plain(masked(entry)) for name, entry in loaded.entries.items()}
    return Files(loaded=loaded, is_daemons=is_daemons, commands=tuple(commands), masked=values)


def _command(server: str, launch: ResolvedCommand, base: Mapping[str, str]) -> Command:
    """Search for a program as the supervisor does, and for its interpreter."""
    env = build_environment(base, launch.whole_env, inherit=launch.inherit_env, tag="")
    path = env.get("PATH", base.get("PATH"))
    command = launch.command
    try:
        program = resolve(command, path, launch.cwd)
        if not os.path.isdir(launch.cwd):
            raise cwd_missing(launch.cwd)
    except SpawnFailed as error:
        return Command(
            server=server,
            command=command,
            trouble=error.message,
            hint=error.hint,
            searched=tuple(error.details.get("searched") or ()),
        )
    if os.path.isabs(command):
        path = f"{path or os.defpath}{os.pathsep}{os.path.dirname(program)}"
    return Command(server=server, command=command, lacks=_lacking(program, path, launch.cwd))


def _lacking(program: str, path: str | None, cwd: str) -> str | None:
    """Return the interpreter of a script if it cannot be found, otherwise ``None``."""
    try:
        with open(program, "rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words:
        return None
    try:
        resolve(words[0], path, cwd)
    except SpawnFailed:
        return words[0]
    return None


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as decoded from JSON, with lists for tuples."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(values))
    return found
