"""What ``WWW-Authenticate`` says.

Source: RFC 6750, section 3; RFC 9728, section 5.1; MCP 2025-11-25, basic/authorization.
"""

from __future__ import annotations

import re
from typing import Final

MOST_CHARACTERS: Final = 4096
"""How much of a challenge is looked at, and kept."""

_PARAMETER: Final = re.compile(r'(?:^|(?<=[\s,]))([\w-]+)=(?:"([^"]*)"|([^\s,"]+))', re.ASCII)


def parameter(challenge: str, name: str) -> str:
    """Return a parameter of a challenge, quoted or not; empty where there is none."""
    for found in _PARAMETER.finditer(challenge[:MOST_CHARACTERS]):
        if found[1].lower() == name.lower():
            return found[2] or found[3] or ""
    return ""


def scopes(challenge: str) -> tuple[str, ...]:
    """Return the scopes that a challenge names."""
    return tuple(parameter(challenge, "scope").split())


def with_metadata_of(challenge: str, earlier: str) -> str:
    """Return a challenge that says where the metadata is, if an ``earlier`` one did."""
    where = parameter(earlier, "resource_metadata")
    if not where or parameter(challenge, "resource_metadata"):
        return challenge
    return f'{challenge}, resource_metadata="{where}"'
