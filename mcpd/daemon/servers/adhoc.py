"""Servers in no configuration: brought by a client, removed soon after their last session."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mcpd import paths
from mcpd.config.entry import ServerEntry, entry_from_json
from mcpd.core.facts import Failure
from mcpd.core.mux.mux import Mux
from mcpd.daemon.servers.registry import Registry
from mcpd.daemon.servers.server import Server, assemble
from mcpd.redact import MASK
from mcpd.upstreams.stdio.spec import ProcessSpec

KEPT_S = 60.0
"""Seconds for which one is kept after its last session."""

MOST = 200
"""Servers brought by clients, at a time. One more replaces one without sessions."""

MOST_WORDS = 1000
"""Arguments, and variables, of a command."""

RUNNERS = frozenset({
    "npx", "npm", "pnpm", "yarn", "bunx", "bun", "deno", "node", "tsx", "uvx", "uv", "pipx",
    "python", "python3", "sh", "bash", "env",
})  # fmt: skip
"""Programs that run a server and are not the server themselves."""

_VERBS = frozenset({"exec", "run", "dlx", "x", "tool"})
_VERSION = re.compile(r"(?<=.)(@|==)[^/]*$")
_ENDING = re.compile(r"\.(py|js|mjs|cjs|ts|sh)$")
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LENGTH = 40
_WORD_CHARACTERS = 1000  # characters of a word; a pattern may take quadratic time
_HASH_DIGITS = 4


class AdHoc:
    """Adds servers of commands that clients bring to the registry, and removes them."""

    def __init__(self, registry: Registry, mux: Mux, changed: Callable[[], None]) -> None:
        """``changed`` is called after servers were added or removed."""
        self._registry = registry
        self._mux = mux
        self._changed = changed
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def bring(self, command: Mapping[str, Any], cwd: str | None) -> str | Failure:
        """Return the name of the server for a client's command, which is added if it is new.

        A command that inherits nothing from the daemon comes from a command line, with the
        environment there: a shell has expanded it already.
        """
        if any(_count(command, member) > MOST_WORDS for member in ("args", "env")):
            why = f"the command has more than {MOST_WORDS} arguments or variables"
            return Failure("config_invalid", why)
        base = self._registry.environment
        configured = entry_from_json(
            dict(command),
            name="",
            env=base,
            cwd=cwd or paths.home(),
            literal=command.get("inherit_env") == "none",
        )
        if configured.error is not None or configured.launch is None or not configured.enabled:
            why = configured.error or _why_not(configured)
            return Failure("config_invalid", f"the command cannot be used: {why}")
        server = assemble(
            configured,
            base_env=base,
            ignore_env=self._registry.daemon.ignore_env,
            is_ad_hoc=True,
            trust=self._registry.loaded.trust,
        )
        server = self._registry.with_secrets(server)
        known = self._known(server)
        if known is not None:
            self._keep(known.name)
            return known.name
        if self._registry.ad_hoc_count() >= MOST and not self._remove_one():
            why = f"{MOST} servers that are in no configuration are in use: all there may be"
            return Failure("rate_limited", why, None, True)
        name = self._free_name(server)
        self._registry.add(_named(server, name))
        self._changed()
        self._keep(name)
        return name

    def _known(self, server: Server) -> Server | None:
        """Return the server that everybody knows and that is the same as this one."""
        for each in self._registry:
            if (
                each.backend is not None
                and each.entry.launch == server.entry.launch
                and each.entry.workspace is None
                and (each.is_ad_hoc or each.entry.sharing is server.entry.sharing)
            ):
                return each
        return None

    def session_closed(self, name: str | None) -> None:
        """Keep a server that a client brought for ``KEPT_S`` after one of its sessions ended."""
        server = None if name is None else self._registry.get(name)
        if server is not None and server.is_ad_hoc:
            self._keep(server.name)

    def differs_in(self, server: Server) -> str | None:
        """Return in which variables a server differs from another that is otherwise the same."""
        spec = server.backend
        if not server.is_ad_hoc or not isinstance(spec, ProcessSpec):
            return None
        mine = server.environment
        for other in self._registry:
            its = other.backend
            if other.name == server.name or not isinstance(its, ProcessSpec):
                continue
            if (its.command, its.args, its.cwd) == (spec.command, spec.args, spec.cwd):
                names = {*mine, *other.environment}
                theirs = other.environment
                differing = sorted(n for n in names if mine.get(n) != theirs.get(n))
                return f"differs from {other.name} in its environment: {', '.join(differing)}"
        return None

    def close(self) -> None:
        """Remove no more servers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _keep(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        server = self._registry.get(name)
        if server is not None and server.is_ad_hoc:
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(KEPT_S, self._remove_unused, name)

    def _remove_one(self) -> bool:
        """Remove the server that has had no session for longest; return whether there was one."""
        for name in self._timers:
            if self._mux.report(name).sessions == 0:
                self._timers.pop(name).cancel()
                self._registry.remove(name)
                return True
        return False

    def _remove_unused(self, name: str) -> None:
        self._timers.pop(name, None)
        if self._mux.report(name).sessions == 0:
            self._registry.remove(name)
            self._changed()

    def _free_name(self, server: Server) -> str:
        shown = server.configured.shown  # no secret becomes a name
        stem = "server" if shown is None else stem_of(shown.command, shown.args)
        for digits in range(_HASH_DIGITS, len(server.entry.launch) + 1):
            name = f"{stem}-{server.entry.launch[:digits]}"
            if self._registry.get(name) is None:
                return name
        return f"{stem}-{server.entry.launch}"


def _why_not(configured: ServerEntry) -> str:
    if configured.remote is not None:
        return "a server that is reached by URL needs an entry in the configuration"
    return "it is disabled"


def _count(command: Mapping[str, Any], member: str) -> int:
    value = command.get(member)
    return len(value) if isinstance(value, list | dict) else 0


def stem_of(command: str, args: tuple[str, ...]) -> str:
    """Return a name for people: the last part of the program or the package."""
    program = os.path.basename(command.rstrip("/"))
    words = [program]
    if program.partition(".")[0].rstrip("0123456789") in RUNNERS or program in RUNNERS:
        named = [word for word in args if not word.startswith("-") and word not in _VERBS]
        words = [word for word in named if MASK not in word] + words
    last = _VERSION.sub("", words[0].rstrip("/")[-_WORD_CHARACTERS:])
    last = _ENDING.sub("", last.rpartition("/")[2])
    return _ODD.sub("-", last).strip("-.")[:_NAME_LENGTH] or "server"


def _named(server: Server, name: str) -> Server:
    return msgspec.structs.replace(
        server,
        name=name,
        configured=msgspec.structs.replace(server.configured, name=name),
        entry=msgspec.structs.replace(server.entry, name=name),
        backend=None
        if server.backend is None
        else msgspec.structs.replace(server.backend, server=name),
    )
