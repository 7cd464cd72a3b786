"""Bearer tokens for HTTP: the file that keeps their hashes, and what each token may use."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from mcpd.errors import ConfigError
from mcpd.statefile import StateFile

FILE_NAME: Final = "tokens.json"
"""In the state directory."""

PREFIX: Final = "mcpd_"
SECRET_BYTES: Final = 32

MOST_FILE_BYTES: Final = 1024 * 1024


class TokensError(ConfigError):
    """The file of tokens cannot be read or written, or a name is taken or unknown."""

    slug = "token_refused"


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One token, as it is kept: only its creator knows its text."""

    name: str
    sha256: str
    """SHA-256 of the whole text, in hexadecimal."""
    created: float
    """Seconds since the epoch."""
    expires: float | None = None
    servers: tuple[str, ...] = ()
    """Names of the servers that it may use; none means all."""
    tools: tuple[str, ...] = ()
    """Shell patterns of the tools that it may use, by a server's own names; none means all."""
    read_only: bool = False
    """Whether it may use only tools that say ``readOnlyHint``."""
    profile: str | None = None
    """The profile of the configuration that it is in."""

    def is_expired(self, now: float) -> bool:
        """Tell whether its time is over; ``now`` is seconds since the epoch."""
        return self.expires is not None and now >= self.expires


class _File(msgspec.Struct, frozen=True):
    version: int
    tokens: tuple[Token, ...]


_FILE: Final = StateFile(_File(version=1, tokens=()), "tokens", TokensError, MOST_FILE_BYTES)


def path_in(state_dir: str) -> str:
    """Return the path of the file."""
    return os.path.join(state_dir, FILE_NAME)


def read(path: str) -> tuple[Token, ...]:
    """Return all tokens, none where there is no file.

    Raises:
        TokensError: the file cannot be read, is not private, or is not what ``create`` writes.
    """
    return _FILE.read(path).tokens


def create(
    path: str,
    name: str,
    *,
    now: float,
    lifetime: float | None = None,
    servers: Sequence[str] = (),
    tools: Sequence[str] = (),
    read_only: bool = False,
    profile: str | None = None,
) -> tuple[Token, str]:
    """Add a token; return it with its text, which is kept nowhere.

    ``lifetime`` is in seconds, ``None`` for ever.

    Raises:
        TokensError: the name is taken, or the file cannot be read or written.
    """
    text = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    token = Token(
        name=name,
        sha256=digest(text),
        created=now,
        expires=None if lifetime is None else now + lifetime,
        servers=tuple(servers),
        tools=tuple(tools),
        read_only=read_only,
        profile=profile,
    )

    def add(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
        if any(other.name == name for other in tokens):
            raise TokensError(
                f"there is a token {name!r} already", hint=f"mcpctl token revoke {name}"
            )
        return (*tokens, token)

    _change(path, add)
    return token, text


def revoke(path: str, name: str) -> Token:
    """Remove a token, and return it.

    Raises:
        TokensError: there is no token of this name, or the file cannot be read or written.
    """
    removed: list[Token] = []

    def remove(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
        removed.extend(token for token in tokens if token.name == name)
        if not removed:
            raise TokensError(f"there is no token {name!r}", hint="mcpctl token list shows them")
        return tuple(token for token in tokens if token.name != name)

    _change(path, remove)
    return removed[0]


def digest(text: str) -> str:
    """Return what is kept of a token's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def find(tokens: Iterable[Token], text: str, now: float) -> Token | None:
    """Return the token with this text, ``None`` where there is none or its time is over.

    Every token is compared, each in constant time.
    """
    wanted = digest(text)
    found = None
    for token in tokens:
        if hmac.compare_digest(token.sha256, wanted) and not token.is_expired(now):
            found = token
    return found


def _change(path: str, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
    """Replace the tokens of a file."""
    _FILE.change(path, lambda file: msgspec.structs.replace(file, tokens=change(file.tokens)))
