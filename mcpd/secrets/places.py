"""Where a secret can be kept besides the keyring: credentials of systemd, and a private file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import msgspec

from mcpd.errors import ConfigError
from mcpd.statefile import StateFile

Mode = Literal["auto", "system", "file", "off"]
"""``[trust] keyring``: the keyring, then the file; the keyring alone; the file alone; neither."""

Place = Literal["systemd", "keyring", "file"]

SERVICE: Final = "mcpd"
"""The name under which a keyring shows secrets."""

KEYRING_S: Final = 5.0
"""Seconds after which a keyring that does not answer counts as locked: it may show a prompt."""

FILE_NAME: Final = "secrets.json"
"""In the state directory."""

USES_KEYRING: Final = ("auto", "system")
USES_FILE: Final = ("auto", "file")

_MOST_BYTES: Final = 1024 * 1024
_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"


class SecretsError(ConfigError):
    """A secret cannot be kept or read: the file of secrets, or the name, is wrong."""

    slug = "secret_refused"


class _File(msgspec.Struct, frozen=True):
    version: int
    secrets: dict[str, str]


_FILE: Final = StateFile(_File(version=1, secrets={}), "secrets", SecretsError, _MOST_BYTES)


def path_in(state_dir: str) -> str:
    """Return the path of the file."""
    return os.path.join(state_dir, FILE_NAME)


def in_file(path: str) -> dict[str, str]:
    """Return all secrets of the file, none where there is no file.

    Raises:
        SecretsError: the file cannot be read, is not private, or is not ours.
    """
    return _FILE.read(path).secrets


def put(path: str, name: str, value: str) -> None:
    """Keep a secret in the file; raise as ``in_file`` does, and where it cannot be written."""
    _change(path, lambda secrets: {**secrets, name: value})


def drop(path: str, names: Iterable[str]) -> None:
    """Remove secrets from the file; raise as ``put`` does."""
    gone = frozenset(names)
    if not gone.isdisjoint(in_file(path)):
        _change(path, lambda secrets: {n: v for n, v in secrets.items() if n not in gone})


def of_systemd(names: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return those secrets that systemd has given to the service (``LoadCredential=``)."""
    directory = env.get(_DIRECTORY, "")
    found: dict[str, str] = {}
    for name in names if directory.startswith("/") else ():
        try:
            with open(os.path.join(directory, name), "rb") as file:
                data = file.read(_MOST_BYTES)
        except OSError:
            continue
        found[name] = data.decode("utf-8", "surrogateescape").removesuffix("\n")
    return found


def _change(path: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    _FILE.change(path, lambda file: msgspec.structs.replace(file, secrets=change(file.secrets)))
