"""Reads the names of the tokens of HTTP clients, and until when they are valid."""

from __future__ import annotations

from datetime import UTC, datetime

from mcpd import tokens as kept
from mcpd.doctor.facts import Tokens
from mcpd.tokens import TokensError


def tokens(state_dir: str) -> Tokens:
    """Return what is known of the tokens in a state directory."""
    now = datetime.now(UTC).timestamp()
    try:
        found = kept.read(kept.path_in(state_dir))
    except TokensError as error:
        return Tokens(now=now, trouble=error.message, remedy=error.hint)
    return Tokens(now=now, expires={token.name: token.expires for token in found})
