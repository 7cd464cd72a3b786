"""Keyed hashes of arguments and results: they can be compared, and not guessed without the key."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import Final

from msgspec import Raw

from mcpd import privatefiles
from mcpd.audit.record import KEY_NAME

KEY_BYTES: Final = 32
HASH_BYTES: Final = 16


PIECE: Final = 2047
"""Bytes that ``hashlib`` hashes without letting other threads run."""

SMALL: Final = 16 * 1024
"""Bytes up to which nothing is gained by that: hashing takes less time than to change threads."""


class Hasher:
    """Computes keyed BLAKE2b-128. Hashing what is large lets other threads run."""

    def __init__(self, key: bytes) -> None:
        self._begun = hashlib.blake2b(digest_size=HASH_BYTES, key=key)

    def __call__(self, data: Raw | bytes) -> bytes:
        """Return the hash of ``data``."""
        own = self._begun.copy()  # reading the key each time takes as long as a small payload
        if PIECE < len(data) <= SMALL:
            view = memoryview(data)
            for begin in range(0, len(data), PIECE):
                own.update(view[begin : begin + PIECE])
        else:
            own.update(data)
        return own.digest()


def digest(key: bytes, data: Raw | bytes) -> bytes:
    """Return the keyed BLAKE2b-128 of ``data``."""
    return Hasher(key)(data)


def read_key(state_dir: str) -> bytes:
    """Return the key of a state directory.

    Raises ``OSError``, also when others can read it, when it is a link, or no key.
    """
    path = os.path.join(state_dir, KEY_NAME)
    key = privatefiles.read_private(path, KEY_BYTES)
    if len(key) != KEY_BYTES:
        raise OSError(errno.EINVAL, f"it has {len(key)} bytes, and not {KEY_BYTES}", path)
    return key


def make_key(state_dir: str) -> bytes:
    """Return the key, made where there is none. Raises as ``read_key`` does."""
    try:
        return read_key(state_dir)
    except FileNotFoundError:
        key = os.urandom(KEY_BYTES)
        privatefiles.replace_durably(os.path.join(state_dir, KEY_NAME), key)
        return key
