"""Checks patterns for names of tools: whether each matches any tool of a server that has listed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from mcpd.config.load import Loaded
from mcpd.core.catalog.patterns import Patterns
from mcpd.doctor.finding import Finding, warning


def check(loaded: Loaded, listed: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Yield the findings; ``listed`` are the names of the tools of servers, as they gave them."""
    for name, entry in loaded.entries.items():
        tools = listed.get(name)
        if tools and entry.config is not None:
            policy, shown = entry.config.policy, entry.config.tools
            lists = {
                "tools.allow": shown.allow,
                "tools.deny": shown.deny,
                "trusted": policy.trusted,
                "ask": policy.ask,
                "pin_volatile": policy.pin_volatile,
            }
            for key, patterns in lists.items():
                if dead := _dead(patterns, tools, by_looks=key in ("tools.deny", "ask")):
                    yield _finding(f"{key} has {dead}: no tool has such a name", name, name)
    for name, profile in loaded.profiles.items():
        servers = [each for each in profile.servers if each]
        for server in servers:
            if server not in loaded.entries:
                yield _finding(f"the profile {name} names a server {server!r}; there is none")
        wanted = servers or [name for name, entry in loaded.entries.items() if entry.enabled]
        if all(server in listed for server in wanted):
            names = [n for s in wanted for tool in listed[s] for n in (tool, f"{s}.{tool}")]
            if dead := _dead(profile.tools, names):
                yield _finding(f"the profile {name} has {dead} in tools: no tool has such a name")


def _dead(patterns: Iterable[str], names: Collection[str], *, by_looks: bool = False) -> str:
    """Return the patterns that match nothing, as a text; empty if there are none."""
    dead = (
        each
        for each in patterns
        if not any(map(Patterns((each,), by_looks=by_looks).matches, names))
    )
    return ", ".join(repr(each) for each in dead if each != "*")


def _finding(message: str, server: str | None = None, shown: str = "") -> Finding:
    typed = f"mcpctl tools {shown}".rstrip()
    return warning("pattern_matches_nothing", message, f"the names are in: {typed}", server)
