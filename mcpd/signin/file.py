"""``credentials.json`` in the state directory: all sign-ins, and where their secrets are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec

from mcpd import privatefiles
from mcpd.errors import ConfigError
from mcpd.signin.credentials import Credentials

FILE_NAME: Final = "credentials.json"
MOST_FILE_BYTES: Final = 16 * 1024 * 1024

_VERSION: Final = 1


class StoreError(ConfigError):
    """The file of sign-ins cannot be read or written."""

    slug = "credentials_unusable"


class Kept(msgspec.Struct, frozen=True):
    """A sign-in as it stands in the file."""

    credentials: Credentials
    """Without its secrets, where these are in the keyring."""

    in_keyring: bool = False


class _File(msgspec.Struct):
    version: int
    sign_ins: tuple[Kept, ...] = ()


_decode: Final = msgspec.json.Decoder(_File).decode


def path_in(state_dir: str) -> str:
    """Return the path of the file."""
    return os.path.join(state_dir, FILE_NAME)


def read(path: str) -> tuple[Kept, ...]:
    """Return all sign-ins as they stand in the file, none where there is no file.

    Raises:
        StoreError: the file cannot be read, is not private, or is not one of ours.
    """
    try:
        data = privatefiles.read_private(path, MOST_FILE_BYTES)
    except FileNotFoundError:
        return ()
    except PermissionError as error:
        raise StoreError(
            f"cannot read {path}: {error.strerror}", hint=f"chmod 600 {path}"
        ) from None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    try:
        kept = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # its message could quote a secret
        raise StoreError(f"{path} is not a file of sign-ins") from None
    if kept.version != _VERSION:
        raise StoreError(f"{path} was written by another version of mcpd ({kept.version})")
    return kept.sign_ins


def change(path: str, how: Callable[[tuple[Kept, ...]], tuple[Kept, ...]]) -> None:
    """Replace the file under its lock, so that two changes at once are both made.

    Raises:
        StoreError: the file cannot be read or written.
    """
    try:
        with privatefiles.locked(f"{path}.lock"):
            file = _File(_VERSION, how(read(path)))
            data = msgspec.json.format(msgspec.json.encode(file), indent=1)
            privatefiles.replace_durably(path, data + b"\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
