"""Hashes that need the key."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from msgspec import Raw

from mcpd.audit import hashes


def test_a_hash_is_of_the_bytes_and_of_the_key() -> None:
    """
    Arguments are guessable: a plain hash would give them away.
    """
    key, data = bytes(32), b'{"text":"x"}'
    assert hashes.digest(key, data) == hashes.digest(key, Raw(data))
    assert hashes.digest(key, data) != hashes.digest(b"\1" * 32, data)
    assert hashes.digest(key, data) != hashlib.blake2b(data, digest_size=16).digest()
    assert len(hashes.digest(key, data)) == 16


def test_the_key_is_made_once_and_is_private(place: Path) -> None:
    key = hashes.make_key(str(place))
    assert hashes.make_key(str(place)) == hashes.read_key(str(place)) == key
    assert len(key) == 32
    assert (place / "audit.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["short", "open", "link"])
def test_a_key_that_is_not_ours_is_refused(place: Path, how: str) -> None:
    path = place / "audit.key"
    path.write_bytes(bytes(16 if how == "short" else 32))
    path.chmod(0o644 if how == "open" else 0o600)
    if how == "link":
        path.rename(place / "elsewhere")
        path.symlink_to(place / "elsewhere")
    with pytest.raises(OSError):
        hashes.make_key(str(place))


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 4096, 16_384, 16_385, 100_000])
def test_a_hash_does_not_depend_on_how_it_is_computed(size: int) -> None:
    """
    Small payloads are hashed piece by piece.
    """
    key, data = os.urandom(32), os.urandom(size)
    wanted = hashlib.blake2b(data, digest_size=16, key=key).digest()
    assert hashes.digest(key, data) == wanted
    assert hashes.digest(key, Raw(data)) == wanted
