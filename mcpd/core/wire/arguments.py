"""The arguments of a call that may be denied or asked about: read once, compared as JSON."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from msgspec import Raw

from mcpd.core.wire import envelope, scan, splice
from mcpd.visible import Number

MOST_MEMBERS: Final = 200_000
"""Strings and objects in arguments that are read: more keep the daemon busy for too long."""

MOST_DEPTH: Final = 200

DIGEST_BYTES: Final = 16


class Unfit(ValueError):
    """Nobody can be asked about these arguments; the message says why."""


def read(raw: bytes) -> Any:
    """Read arguments, with numbers as they were written.

    Raises:
        Unfit: a member is there twice, so that two readers may see two values; or they are too
            many, or nested too deep.
    """
    if raw.count(b'"') > 2 * MOST_MEMBERS or raw.count(b"{") + raw.count(b"[") > MOST_MEMBERS:
        raise Unfit("they have too many members for a person to be asked about them")
    try:
        value = json.loads(
            raw,
            object_pairs_hook=_object,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_constant,
        )
        if _depth(value) > MOST_DEPTH:
            raise RecursionError
    except RecursionError:
        why = f"they are nested deeper than {MOST_DEPTH}, and a person is asked about them"
        raise Unfit(why) from None
    except Unfit:
        raise
    except ValueError:
        raise Unfit("they are not JSON") from None
    return value


def unclear_member(params: Raw | bytes) -> str | None:
    """Return a member of a call's parameters that two readers may read differently.

    It is there twice, or in another case: some readers take the first of two, and some take
    ``Name`` for ``name``.
    """
    names = splice.names_of(params)  # those of most, quickly
    if names is not None:
        return next((name for name in names if name not in _READ and _is_read(name)), None)
    view = memoryview(params)
    try:
        found = scan.members(params)
    except ValueError:
        return "params"
    seen: set[str] = set()
    for member in found:
        name = envelope.text(bytes(view[member.start : member.name_end]))
        if name is None or not _is_read(name):
            continue
        if name not in _READ or name in seen:
            return name
        seen.add(name)
    return None


_READ: Final = ("name", "arguments")


def _is_read(name: str) -> bool:
    return name.casefold() in _READ


def digest(value: Any) -> bytes:
    """Return what two spellings of the same arguments have in common."""
    parts: list[str] = []
    _write(value, parts.append)
    whole = "".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=DIGEST_BYTES).digest()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Unfit(f"the member {name[:100]!r} is there twice")
            seen.add(name)
    return found


def _no_constant(name: str) -> Any:
    raise Unfit(f"{name} is not JSON")


def _depth(value: Any) -> int:
    level, deepest = [value], 0
    while level := [each for each in level if isinstance(each, dict | list) and each]:
        deepest += 1
        if deepest > MOST_DEPTH:
            break
        level = [
            member
            for each in level
            for member in (each.values() if isinstance(each, dict) else each)
        ]
    return deepest


def _write(value: Any, write: Any) -> None:
    if isinstance(value, dict):
        for name in sorted(value):
            write(f"{{{json.dumps(name)}:")
            _write(value[name], write)
        write("}")
    elif isinstance(value, list):
        write("[")
        for each in value:
            _write(each, write)
            write(",")
        write("]")
    elif isinstance(value, Number):
        write(_number(value))
    else:
        write(json.dumps(value))


def _number(spelling: str) -> str:
    """Return a number such that equal ones are equal, whatever their length."""
    try:
        sign, digits, exponent = Decimal(spelling).as_tuple()
    except InvalidOperation:  # its exponent is out of all bounds
        return f"#{spelling}"
    if not isinstance(exponent, int):
        return f"#{spelling}"
    text = "".join(map(str, digits)).lstrip("0")
    whole = text.rstrip("0")
    if not whole:
        return "#0"
    return f"#{'-' if sign else ''}{whole}e{exponent + len(text) - len(whole)}"
