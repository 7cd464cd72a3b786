"""Private files of the state directory: versioned JSON, replaced whole under a lock."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw

from mcpd import privatefiles
from mcpd.errors import ConfigError


class Versioned(Protocol):
    """The content of a file."""

    @property
    def version(self) -> int:
        """The version of its form."""


T = TypeVar("T", bound=Versioned)
_Any = TypeVar("_Any")


def encode(value: Any) -> bytes:
    """Return a value as JSON. Half of a surrogate pair, which peers have in names, is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def decode(data: bytes, kind: type[_Any]) -> _Any:
    """Return a value that ``encode`` has written.

    Raises:
        ValueError: it is no such value.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"\\ud" not in data:
            raise
    try:
        return msgspec.convert(json.loads(data), type=kind)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _plain(value: object) -> Any:
    return json.loads(bytes(value)) if isinstance(value, Raw) else msgspec.to_builtins(value)


class StateFile(Generic[T]):
    """One kind of file; its path is given to each method."""

    def __init__(
        self, empty: T, what: str, error: type[ConfigError], most_bytes: int = 16 * 1024 * 1024
    ) -> None:
        """``empty`` is the content where there is no file; its version is the one that is read.

        ``what`` names the content for people, as in "a file of tokens". ``error`` is raised.
        """
        self._empty = empty
        self._what = what
        self._error = error
        self._most_bytes = most_bytes
        self._decode = msgspec.json.Decoder(type(empty)).decode

    def read(self, path: str) -> T:
        """Return the content; raise where it cannot be read, is not private, or is not ours."""
        try:
            data = privatefiles.read_private(path, self._most_bytes)
        except FileNotFoundError:
            return self._empty
        except OSError as error:
            is_open = isinstance(error, PermissionError)
            raise self._error(
                f"cannot read {path}: {error.strerror}",
                hint=f"chmod 600 {path}" if is_open else None,
            ) from None
        try:
            found = self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # its message could quote a secret
            raise self._error(f"{path} is not a file of {self._what}") from None
        if found.version != self._empty.version:
            raise self._error(f"{path} was written by another version of mcpd ({found.version})")
        return found

    def change(self, path: str, how: Callable[[T], T]) -> None:
        """Replace the content under the file's lock, so that two changes at once are both made.

        Raises as ``read`` does, and where the file cannot be written.
        """
        try:
            with privatefiles.locked(f"{path}.lock"):
                before = self.read(path)
                after = how(before)
                if after != before:
                    data = msgspec.json.format(msgspec.json.encode(after), indent=1)
                    privatefiles.replace_durably(path, data + b"\n")
        except OSError as error:
            raise self._error(f"cannot write {path}: {error.strerror}") from None
        except UnicodeEncodeError:  # a path of a file system may be any bytes
            raise self._error(f"cannot write {path}: a name in it is not UTF-8") from None
