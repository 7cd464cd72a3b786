"""The answers that are remembered for good, on disk: ``trust/rules.json`` of the state."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from mcpd import privatefiles, statefile
from mcpd.core.facts import Rule
from mcpd.ids import SessionId

DIRECTORY: Final = "trust"
NAME: Final = "rules.json"
NUMBERS: Final = "asked"
"""The file with a number that no question of any daemon so far was given."""

BLOCK: Final = 100
"""Numbers of questions that are taken at once."""

MOST_BYTES: Final = 64 * 1024 * 1024
MOST_DEFINITION: Final = 65536
"""Characters of a definition that are kept to be compared with a later one."""

_VERSION: Final = 1


class Kept(msgspec.Struct, omit_defaults=True):
    """One answer in the file. Times are in seconds since 1970."""

    id: int
    answer: Literal["always", "1h"]
    principal: str
    server: str
    identity: str
    tool: str
    pin: str
    by: str
    since: float
    uses: int = 0
    last: float | None = None
    until: float | None = None
    lapsed: str = ""
    definition: str | None = None


class _File(msgspec.Struct):
    rules: list[Kept]
    version: int = _VERSION


class Uses(msgspec.Struct):
    """Since when an answer is remembered, and how often it has decided about a call."""

    since: float
    uses: int = 0
    last: float | None = None


def wall_clock() -> float:
    """Return the seconds since 1970: what another daemon can compare, and people read."""
    return datetime.now(UTC).timestamp()


def read(state_dir: str) -> list[Kept]:
    """Return what the file holds; nothing where there is none.

    Raises:
        OSError, ValueError: it cannot be read, or is not what we write; others may have written it.
    """
    path = os.path.join(state_dir, DIRECTORY, NAME)
    try:
        data = privatefiles.read_private(path, MOST_BYTES)
    except FileNotFoundError:
        return []
    found = statefile.decode(data, _File)
    if found.version != _VERSION:
        raise ValueError(f"its version is {found.version}, and {_VERSION} is known here")
    return found.rules


def write(state_dir: str, content: bytes) -> None:
    """Replace the file; when this returns, a power cut does not undo it. Raises ``OSError``."""
    folder = os.path.join(state_dir, DIRECTORY)
    os.close(privatefiles.open_directory(folder))
    privatefiles.replace_durably(os.path.join(folder, NAME), content)


def first_number(state_dir: str) -> int:
    """Return a number that no question had: an answer to an old one must not be one to another."""
    try:
        data = privatefiles.read_private(os.path.join(state_dir, DIRECTORY, NUMBERS), 100)
        return max(1, int(data))
    except (OSError, ValueError):
        return 1


def take_numbers(state_dir: str, up_to: int) -> None:
    """Leave numbers up to this one to the daemon that runs. Raises ``OSError``."""
    folder = os.path.join(state_dir, DIRECTORY)
    os.close(privatefiles.open_directory(folder))
    privatefiles.replace_durably(os.path.join(folder, NUMBERS), b"%d" % (up_to + 1))


def encoded(rules: Sequence[Rule], uses: Callable[[int], Uses], now: float) -> bytes:
    """Return the file for answers; ``now`` is the monotonic time that ``Rule.until`` is of."""
    ahead = wall_clock() - now
    kept = []
    for rule in rules:
        its = uses(rule.id)
        definition = None if rule.definition is None else rule.definition.decode(errors="replace")
        kept.append(
            Kept(
                id=rule.id,
                answer="1h" if rule.answer == "1h" else "always",
                principal=rule.principal,
                server=rule.server,
                identity=rule.identity,
                tool=rule.tool,
                pin=rule.pin.hex(),
                by=rule.by,
                since=its.since,
                uses=its.uses,
                last=its.last,
                until=None if rule.until is None else rule.until + ahead,
                lapsed=rule.lapsed,
                definition=definition and definition[:MOST_DEFINITION],
            )
        )
    return statefile.encode(_File(kept))


def rule_of(kept: Kept, now: float) -> Rule | None:
    """Return an answer of the file; ``None`` for one that has ended. ``now`` is the wall clock's.

    Raises ``ValueError`` for a pin that is none.
    """
    left = None if kept.until is None else kept.until - now
    if left is not None and left <= 0:
        return None
    return Rule(
        id=kept.id,
        answer=kept.answer,
        principal=kept.principal,
        server=kept.server,
        identity=kept.identity,
        tool=kept.tool,
        pin=bytes.fromhex(kept.pin),
        by=kept.by,
        session=SessionId(0),
        definition=None if kept.definition is None else kept.definition.encode(),
        until=None if left is None else min(left, 3600.0),
        lapsed=kept.lapsed,
    )
