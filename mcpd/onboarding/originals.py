"""The originals of files that were adopted: one file a change, which nothing removes.

The first line of such a file is JSON: whose file it was, when, and which entries were changed. What
follows is the file as it was, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from mcpd import paths, privatefiles
from mcpd.editing.file import Format
from mcpd.errors import ConfigError

DIRECTORY: Final = "adopted"
SIZE_LIMIT: Final = 64 * 1024 * 1024


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a client that was changed."""

    name: str
    path: tuple[Any, ...]
    server: str
    source: str
    """Its text, as it stood in the file."""

    content: Any
    """What it said."""

    ours: Any = None
    """What it says since; ``None`` if it was removed."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to one file, once."""

    what: Literal["adopt", "release"]
    client: str
    path: str
    format: Format
    when: str
    """UTC, ending in Z."""

    after: str
    """SHA-256 of the file as it was left."""

    entries: tuple[Changed, ...] = ()
    added: tuple[tuple[Any, ...], Any] | None = None
    """With ``--aggregate``: path and content of the entry by which all servers are reached."""

    settled: tuple[tuple[str, str], ...] = ()
    """Of a release: the change, and the name of the entry, that is undone or out of date."""


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """A change, and where its original is kept."""

    file: str
    change: Change
    before: bytes

    @property
    def id(self) -> str:
        """The name of its file."""
        return os.path.basename(self.file)


def directory(env: Mapping[str, str] = os.environ) -> str:
    """Return where the originals are."""
    return os.path.join(paths.state_dir(env), DIRECTORY)


def now() -> str:
    """Return the time, as it is kept."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def digest(content: bytes) -> str:
    """Return what a file is compared by."""
    return hashlib.sha256(content).hexdigest()


def keep(change: Change, before: bytes) -> str:
    """Keep an original; return its path. The same change is kept once, also if it is repeated."""
    stamp = change.when.replace(":", "").replace(".", "-")
    name = f"{stamp}-{change.client}-{change.what}-{os.getpid()}"
    place = directory()
    try:
        os.close(privatefiles.open_directory(place))
        content = _head(change) + b"\n" + before
        privatefiles.replace_durably(os.path.join(place, name), content)
    except OSError as error:
        raise ConfigError(f"{place}: an original cannot be kept: {error.strerror}") from error
    return os.path.join(place, name)


def kept(unusable: dict[str, str] | None = None) -> list[Original]:
    """Return all originals, the oldest first.

    Files that cannot be read are left out, and added to ``unusable`` with the reason.
    """
    place = directory()
    try:
        names = sorted(os.listdir(place))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        if name.endswith(".tmp"):  # of a process that was killed
            continue
        file = os.path.join(place, name)
        try:
            head, _, before = privatefiles.read_private(file, SIZE_LIMIT).partition(b"\n")
            change = msgspec.convert(json.loads(head), Change)
        except OSError as error:
            why = error.strerror or "it cannot be read"
        except (ValueError, msgspec.ValidationError):
            why = "it is no original of ours"
        else:
            found.append(Original(file=file, change=change, before=before))
            continue
        if unusable is not None:
            unusable[file] = f"{why}; what was adopted then is not known"
    return found


def _head(change: Change) -> bytes:
    """Return a change as one line of JSON; numbers of any size stay what they are."""
    return json.dumps(msgspec.to_builtins(change, builtin_types=())).encode()
