"""The tokens that are valid now: read again when their file changes, and ended when their time is
over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from mcpd import tokens
from mcpd.config.files.watch import FileWatch
from mcpd.tokens import Token, TokensError

LONGEST_S: Final = 86400.0
"""The longest time until tokens are looked at again: the wall clock may be set."""


class Record(Protocol):
    """Records an event in the audit."""

    def __call__(self, what: str, /, **detail: Any) -> None: ...


_Stamp = tuple[int, int, int] | None


class TokenFile:
    """Finds tokens by their text."""

    def __init__(
        self,
        state_dir: str,
        ended: Callable[[str], None],
        record: Record,
    ) -> None:
        """``ended`` is told the name of each token that is valid no more.

        ``record`` is told which tokens are made, revoked and replaced, and which expire.
        """
        self.trouble: str | None = None
        """Why the file cannot be used."""
        self._path = tokens.path_in(state_dir)
        self._ended = ended
        self._stamp: _Stamp = None
        self._tokens: tuple[Token, ...] = ()
        self._record = record
        self._expired: set[Token] = set()
        """Tokens of the file whose time is over, as has been recorded."""
        self._timer: asyncio.TimerHandle | None = None
        self._watch = FileWatch((self._path,), self._read)
        self._read(is_first=True)

    def find(self, text: str) -> Token | None:
        """Return the token with this text."""
        if self._stamp != self._look():
            self._watch.skip_changes()
            self._read()
        return tokens.find(self._tokens, text, _now())

    def named(self, name: str) -> Token | None:
        """Return the token with this name, while it is valid."""
        now = _now()
        return next((t for t in self._tokens if t.name == name and not t.is_expired(now)), None)

    def close(self) -> None:
        """Watch the file no longer."""
        self._watch.close()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> _Stamp:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns

    def _read(self, *, is_first: bool = False) -> None:
        before, self._stamp = self._tokens, self._look()
        try:
            self._tokens = tokens.read(self._path)
            self.trouble = None
        except TokensError as error:
            self._tokens = ()
            self.trouble = error.message
        if not is_first and self.trouble is None:
            self._record_changes(before)
        self._end_old(before)

    def _record_changes(self, before: tuple[Token, ...]) -> None:
        for token in self._tokens:
            if token not in before:
                self._record(
                    "token.made",
                    subject=token.name,
                    servers=token.servers,
                    tools=token.tools,
                    read_only=token.read_only,
                    expires=token.expires,
                )
        for token in before:
            if token not in self._tokens:
                self._record("token.revoked", subject=token.name)

    def _end_old(self, before: tuple[Token, ...]) -> None:
        """End the tokens that are not valid any more; look again when the next one expires."""
        now = _now()
        valid = {token for token in self._tokens if not token.is_expired(now)}
        for token in before:
            if token not in valid:
                if token in self._tokens and token not in self._expired:
                    self._record("token.expired", subject=token.name)
                self._ended(token.name)
        self._expired = set(self._tokens) - valid
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [t.expires for t in self._tokens if t.expires is not None and t.expires > now]
        if times:
            wait = min(max(min(times) - now, 0.0) + 0.01, LONGEST_S)
            self._timer = asyncio.get_running_loop().call_later(wait, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._end_old(self._tokens)


def _now() -> float:
    """Return seconds since the epoch: tokens expire at a date."""
    return datetime.now(UTC).timestamp()
