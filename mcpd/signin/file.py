"""``credentials.json`` in the state directory: all sign-ins, and where their secrets are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec

from mcpd.errors import ConfigError
from mcpd.signin.credentials import Credentials
from mcpd.statefile import StateFile

FILE_NAME: Final = "credentials.json"


class StoreError(ConfigError):
    """The file of sign-ins cannot be read or written."""

    slug = "credentials_unusable"


class Kept(msgspec.Struct, frozen=True):
    """A sign-in as it stands in the file."""

    credentials: Credentials
    """Without its secrets, where these are in the keyring."""

    in_keyring: bool = False


class _File(msgspec.Struct, frozen=True):
    version: int
    sign_ins: tuple[Kept, ...] = ()


_FILE: Final = StateFile(_File(version=1), "sign-ins", StoreError)


def path_in(state_dir: str) -> str:
    """Return the path of the file."""
    return os.path.join(state_dir, FILE_NAME)


def read(path: str) -> tuple[Kept, ...]:
    """Return all sign-ins as they stand in the file, none where there is no file.

    Raises:
        StoreError: the file cannot be read, is not private, or is not one of ours.
    """
    return _FILE.read(path).sign_ins


def change(path: str, how: Callable[[tuple[Kept, ...]], tuple[Kept, ...]]) -> None:
    """Replace the file under its lock, so that two changes at once are both made.

    Raises:
        StoreError: the file cannot be read or written.
    """
    _FILE.change(path, lambda file: msgspec.structs.replace(file, sign_ins=how(file.sign_ins)))
