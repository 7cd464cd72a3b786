"""Reads ``[trust]``, ``[profiles]`` and what a server's own table says of its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpd.config.policy import ProfileConfig, ServerPolicy, TrustConfig
from mcpd.config.reading.findings import Table
from mcpd.config.reading.values import (
    Reader,
    count,
    directories,
    flag,
    one_of,
    rate,
    seconds,
    size_from,
    text,
    texts,
)

_APPROVAL: Final = ("auto", "ask", "trusted", "writes")
_PIN: Final = ("off", "warn", "hold")
_LEAST_AUDIT_BYTES: Final = 1024 * 1024

SERVER: Final[Mapping[str, Reader]] = {
    "approval": one_of("", *_APPROVAL),
    "trusted": texts,
    "ask": texts,
    "pin": one_of("", *_PIN),
    "pin_volatile": texts,
    "sanitise_results": one_of("off", "flag", "clean"),
    "rate": rate,
    "rate_wait": seconds,
    "sampling": flag,
    "sampling_rate": rate,
    "sampling_tokens": count,
    "sampling_max_tokens": count,
    "record": one_of("none", "arguments", "full"),
}
TRUST: Final[Mapping[str, Reader]] = {
    "approval": one_of(*_APPROVAL),
    "approval_timeout": seconds,
    "approval_keep": seconds,
    "notify": one_of("auto", "off"),
    "pin": one_of(*_PIN),
    "sanitise": one_of("off", "invisible", "strict"),
    "trusted_projects": directories,
    "client_rate": rate,
    "audit": flag,
    "audit_days": count,
    "audit_max": size_from(_LEAST_AUDIT_BYTES),
    "audit_required": flag,
    "keyring": one_of("auto", "system", "file", "off"),
}
PROFILE: Final[Mapping[str, Reader]] = {
    "servers": texts,
    "tools": texts,
    "read_only": flag,
    "resources": flag,
    "prompts": flag,
    "approval": one_of(*_APPROVAL),
    "rate": rate,
    "expires": text,
}

_STRICTEST: Final = {"approval": "ask", "pin": "hold", "audit_required": True}

_MODES: Final = {"approve": "auto", "auto": "auto", "prompt": "ask"}
"""Codex's ``default_tools_approval_mode`` and ``tools.NAME.approval_mode``."""

_TOOL_APPROVAL: Final = {"always-ask": "ask", "trusted-only": "trusted"}
_REGEX: Final = re.compile(r"^\^|\$$|\||\.[*+]$|\\")
_LISTS: Final = ("alwaysAllow", "autoApprove", "trustedTools")
"""Other names of ``trusted``."""

ALIASES: Final = (*_LISTS, "trust", "toolApproval", "default_tools_approval_mode")


def server(table: Table) -> ServerPolicy:
    """Read what a server's table says of its calls, in any client's dialect."""
    found = table.read_all(SERVER)
    trusted = [*_listed(found.get("trusted")), *_of_aliases(table)]
    asked = list(_listed(found.get("ask")))
    for name, mode in _modes(table).items():
        (asked if mode == "ask" else trusted).append(_literal(name))
    if trusted:
        found["trusted"] = tuple(dict.fromkeys(trusted))
    if asked:
        found["ask"] = tuple(dict.fromkeys(asked))
    if "approval" not in table.content and (approval := _approval(table)) is not None:
        found["approval"] = approval
    policy = ServerPolicy(**_known(found))
    for key in ("trusted", "ask", "pin_volatile"):
        warn_of_patterns(table, key, getattr(policy, key), grants=key == "trusted")
    return policy


def trust(tables: Iterable[Table]) -> TrustConfig:
    """Read the ``trust`` tables and merge them key by key; later values win.

    An invalid value is the strictest: by default nobody is asked, and nothing is held.
    """
    found: dict[str, object] = {}
    for table in tables:
        values = table.read_all(TRUST)
        invalid = (key for key in _STRICTEST if key in table.content and key not in values)
        found |= {key: _STRICTEST[key] for key in invalid} | values
        table.warn_of_unknown(TRUST)
    return TrustConfig(**_known(found))


def profiles(tables: Iterable[Table]) -> dict[str, ProfileConfig]:
    """Read the profiles of all files; one with a later file's name replaces the earlier one.

    A profile with an invalid value allows nothing: it would otherwise allow more than was meant.
    """
    found: dict[str, ProfileConfig] = {}
    for table in tables:
        for name, content in table.content.items():
            inner = table.within(name)
            values = inner.read_all(PROFILE)
            inner.warn_of_unknown(PROFILE)
            warn_of_patterns(inner, "tools", _listed(values.get("tools")), grants=True)
            wanted = [key for key in PROFILE if key in inner.content]
            is_whole = isinstance(content, dict) and all(key in values for key in wanted)
            found[name] = ProfileConfig(**_known(values)) if is_whole else NOTHING
    return found


def warn_of_patterns(
    table: Table, key: str, patterns: Iterable[str], *, grants: bool = False
) -> None:
    """Warn of patterns that match other names than was meant; ``grants``: they give rights."""
    for pattern in patterns:
        inside = pattern.strip("*")
        if _REGEX.search(
            pattern.removesuffix(".*") if key == "tools" else pattern
        ):  # SERVER.* of a profile
            advice = "a regular expression; patterns are those of a shell, as read_*"
            table.warning(key, f"{pattern!r} looks like {advice}")
        elif grants and inside and pattern == f"*{inside}*":
            table.warning(key, f"{pattern!r} also matches names such as delete_{inside}_all")


NOTHING: Final = ProfileConfig(servers=("",), resources=False, prompts=False)
"""Allows nothing: no server has an empty name."""


def tools_with_a_mode(tools: Table) -> list[str]:
    """Return the tools that have a table of their own, as Codex writes it."""
    return [name for name, content in tools.content.items() if isinstance(content, dict)]


def _approval(table: Table) -> str | None:
    """Return ``approval`` as other clients spell it, ``None`` where none does."""
    mode = table.read("default_tools_approval_mode", one_of(*_MODES))
    if isinstance(mode, str):
        return _MODES[mode]
    wanted = table.read("toolApproval", one_of(*_TOOL_APPROVAL))
    if isinstance(wanted, str):
        return _TOOL_APPROVAL[wanted]
    return "auto" if table.read("trust", flag) is True else None


def _of_aliases(table: Table) -> list[str]:
    found: list[str] = []
    for alias in _LISTS:
        if isinstance(table.content.get(alias), bool):
            continue  # some clients write `true` for all tools; ours are not asked about anyway
        found += _listed(table.read(alias, texts))
    return found


def _modes(table: Table) -> dict[str, str]:
    """Return the approval of each tool that has one of its own."""
    tools = table.content.get("tools")
    if not isinstance(tools, dict):
        return {}
    found = {}
    inner = table.within("tools")
    for name in tools_with_a_mode(inner):
        mode = inner.within(name).read("approval_mode", one_of(*_MODES))
        if isinstance(mode, str):
            found[name] = _MODES[mode]
    return found


def _literal(name: str) -> str:
    """Return a pattern that matches this name alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _listed(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _known(found: dict[str, object]) -> dict[str, Any]:
    """Return ``found`` with a type that the checker accepts; the readers have validated it."""
    return found
