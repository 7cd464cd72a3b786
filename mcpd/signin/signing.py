"""Proof by a private key that a client is who it says: ``private_key_jwt``."""

from __future__ import annotations

from typing import Any, Final

MOST_KEY_BYTES: Final = 64 * 1024


class KeyUnusable(Exception):
    """A key that cannot be read or does not fit its algorithm; the message says why."""


def sign(claims: dict[str, Any], key_file: str, algorithm: str) -> str:
    """Return signed claims. Blocks: it reads the file and loads a library.

    Raises:
        KeyUnusable: the key cannot be used.
    """
    import jwt  # only where a server needs it

    try:
        with open(key_file, "rb") as file:
            key = file.read(MOST_KEY_BYTES)
    except OSError as error:
        raise KeyUnusable(f"key_file {key_file}: {error.strerror}") from None
    try:
        return jwt.encode(claims, key, algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
        # What a library says of a key may quote it.
        raise KeyUnusable(f"key_file {key_file} has no key for {algorithm}") from None
