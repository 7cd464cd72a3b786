"""What a configuration allows, read once more by other means than the mux reads it."""

from __future__ import annotations

import fnmatch
import json
import re
import unicodedata
from typing import Any, NamedTuple

from mcpd.core.interface.entries import Entry, Policy, Profile
from mcpd.principal import Principal, Scope

SERVERS = ("alpha", "beta", "gamma", "delta")
CYRILLIC = "re\u0430d"
"""Looks like ``read``."""
TOOLS = ("read", "write", "send", "READ", CYRILLIC)
PATTERNS = ("*", "read", "re*", "write", "s*", "[rw]*")


class Form(NamedTuple):
    """A definition of a tool, as a server has it."""

    text: int
    schema: int
    read_only: bool

    def raw(self, name: str) -> dict[str, Any]:
        """Return it as a server lists it."""
        properties = {f"p{self.schema}": {"type": "string"}, "n": {}}
        return {
            "name": name,
            "description": f"It is tool number {self.text}.",
            "inputSchema": {"type": "object", "properties": properties},
            **({"annotations": {"readOnlyHint": True}} if self.read_only else {}),
        }


def matches(pattern: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


def looks_like(pattern: str, name: str) -> bool:
    """Tell whether a pattern matches a name by its looks."""
    return matches(pattern, name) or matches(folded(pattern), folded(name))


def folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("\u0430", "a")


def profile_of(principal: Principal, policy: Policy) -> Profile | None:
    return None if principal.profile is None else policy.profiles.get(principal.profile)


def scopes(principal: Principal, policy: Policy) -> list[Scope] | None:
    """Return what each narrows what a principal may use; ``None`` where it may use nothing."""
    if principal.profile is None:
        return [principal.scope]
    profile = profile_of(principal, policy)
    return None if profile is None else [principal.scope, profile.scope]


def why_hidden(
    principal: Principal, policy: Policy, entry: Entry, tool: str, form: Form | None
) -> str | None:
    """Return which rule hides a tool from a principal."""
    found = scopes(principal, policy)
    if found is None:
        return "its profile is gone"
    for scope in found:
        if scope.servers is not None and entry.name not in scope.servers:
            return "the server is outside of its scope"
        for group in scope.tools:
            if not any(matches(p, tool) or matches(p, f"{entry.name}.{tool}") for p in group):
                return "the tool is outside of its scope"
        if scope.read_only and not (form is not None and form.read_only):
            return "the tool does not only read"
    if not any(matches(pattern, tool) for pattern in entry.filter.allow):
        return "no pattern allows it"
    if any(looks_like(pattern, tool) for pattern in entry.filter.deny):
        return "a pattern denies it"
    return None


def why_no_other(principal: Principal, policy: Policy, entry: Entry, method: str) -> str | None:
    """Return which rule keeps a principal from reading, or from getting prompts."""
    found = scopes(principal, policy)
    if found is None:
        return "its profile is gone"
    for scope in found:
        if scope.servers is not None and entry.name not in scope.servers:
            return "the server is outside of its scope"
        if not (scope.resources if method == "resources/read" else scope.prompts):
            return f"{method} is outside of its scope"
    return None


def is_asked(
    principal: Principal, policy: Policy, entry: Entry, tool: str, form: Form | None
) -> bool:
    """Tell whether somebody is asked about calls of a tool."""
    if any(looks_like(pattern, tool) for pattern in entry.ask):
        return True
    is_trusted = any(matches(pattern, tool) for pattern in entry.trusted)
    only_reads = form is not None and form.read_only
    profile = profile_of(principal, policy)
    mode = entry.approval or policy.approval
    if mode == "ask" and not is_trusted:
        return True
    if mode == "trusted" and not is_trusted:
        return True
    if mode == "writes" and not (only_reads or is_trusted):
        return True
    if profile is None or profile.approval == "auto":
        return False
    if profile.approval == "trusted":
        return not is_trusted
    return profile.approval == "ask" or not only_reads


_NONCE = re.compile(rb"([ \t]{16})\}\Z")


def spaces(number: int) -> bytes:
    """Write a number such that it is no part of the value."""
    return format(number, "016b").translate({48: " ", 49: "\t"}).encode()


def number_in(raw: bytes) -> int | None:
    """Return the number that arguments were written with."""
    found = _NONCE.search(raw)
    return None if found is None else int(found[1].translate(bytes.maketrans(b" \t", b"01")), 2)


def value_of(raw: bytes) -> str | None:
    """Return what two spellings of arguments have in common; ``None`` where a name is twice."""
    twice = False

    def pairs(found: list[tuple[str, Any]]) -> Any:
        nonlocal twice
        twice = twice or len(dict(found)) < len(found)
        return dict(found)

    value = json.loads(raw, object_pairs_hook=pairs, parse_int=float)
    return None if twice else json.dumps(value, sort_keys=True)
