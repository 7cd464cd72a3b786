"""Readers: validate the value of a key and convert it (durations, sizes, words, lists)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mcpd.config.addresses import MOST_PORT, parse
from mcpd.config.policy import rate_of

Reader = Callable[[object], Any]
"""Converts a value of a file to the schema's type; raises ``Expected``."""

SECONDS_LIMIT = 1e9
"""About 30 years; larger values make event loops overflow."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|sec|m|min|h|d)")
_DURATION_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?i?b)", re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name of a header (RFC 9110, section 5.1)."""

_OF_OAUTH = frozenset({
    "client_id", "client_secret", "code_challenge", "code_challenge_method", "redirect_uri",
    "request", "request_uri", "resource", "response_mode", "response_type", "scope", "state",
})  # fmt: skip
"""Parameters that no entry may add to an authorization request."""

_SIZE_UNITS = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}


class Expected(ValueError):
    """A value is invalid. The message completes "expected …" and does not contain the value.

    ``path`` leads from the value to its invalid part; ``others`` are further invalid parts.
    """

    def __init__(
        self, wanted: str, *, path: tuple[str | int, ...] = (), others: Sequence[Expected] = ()
    ) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.path = path
        self.others = others

    def __iter__(self) -> Iterator[Expected]:
        """Yield this one and each other one."""
        yield self
        yield from self.others

    @classmethod
    def together(cls, wrong: Sequence[Expected]) -> Expected:
        """Return one that tells of several."""
        return cls(wrong[0].wanted, path=wrong[0].path, others=wrong[1:])


def kind(value: object) -> str:
    """Name the kind of a value as people who write JSON or TOML do."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def flag(value: object) -> bool:
    """Read ``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    raise Expected(f"true or false, not {kind(value)}")


def text(value: object) -> str:
    """Read a string that can be passed to the operating system: no NUL, no lone surrogates."""
    if not isinstance(value, str):
        raise Expected(f"a string, not {kind(value)}")
    if "\0" in value:
        raise Expected("a string without NUL characters")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise Expected("a string of whole characters (it has half of a surrogate pair)")
    return value


def filled(value: object) -> str:
    """Read a string that is not blank."""
    found = text(value)
    if not found.strip():
        raise Expected("a string that is not empty")
    return found


def texts(value: object) -> tuple[str, ...]:
    """Read a list of strings."""
    if isinstance(value, str):
        raise Expected('a list of strings, not a string: ["…", "…"]')
    if not isinstance(value, list):
        raise Expected(f"a list of strings, not {kind(value)}")
    return tuple(_each(enumerate(value), lambda _, element: _quoted_text(element)))


def seconds(value: object) -> float:
    """Read a duration: seconds as a number, or text with a unit (``ms``, ``s``, ``m``, ``h``)."""
    found: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value) if abs(value) <= SECONDS_LIMIT else math.inf
    elif isinstance(value, str) and (parts := _DURATION.fullmatch(value.strip())):
        found = float(parts[1]) * _DURATION_UNITS[parts[2]]
    if found is None:
        raise Expected('seconds as a number, or text with a unit such as "250ms", "30s", "5m"')
    if not 0 <= found <= SECONDS_LIMIT:  # false for NaN
        raise Expected("seconds from 0 to 1000000000")
    return found


def size(value: object) -> int:
    """Read a size: bytes as a number, or text with a unit (``kB``, ``KiB``, ``MiB``, ``GiB``)."""
    found: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and (parts := _SIZE.fullmatch(value.strip())):
        found = round(float(parts[1]) * _SIZE_UNITS[parts[2].lower()])
    if found is None:
        raise Expected('bytes as a number, or text with a unit such as "512KiB", "16MiB"')
    return _whole(found, "bytes")


def size_from(least: int) -> Reader:
    """Return a reader of a size of at least ``least`` bytes."""

    def read(value: object) -> int:
        found = size(value)
        if found < least:
            raise Expected(f"at least {least} bytes")
        return found

    return read


def rate(value: object) -> str:
    """Read a number of calls in a time, ``60/min``; an empty string is no limit."""
    if value == "" or (isinstance(value, str) and rate_of(value) is not None):
        return value
    raise Expected('a number of calls in a time, such as "10/s", "60/min", "500/h"')


def count(value: object) -> int:
    """Read a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Expected(f"a whole number, not {kind(value)}")
    return _whole(value, "a whole number")


def _whole(value: float, what: str) -> int:
    if not 0 <= value < 2**53 or value != int(value):
        raise Expected(f"{what}, whole and not negative")
    return int(value)


def one_of(*words: str) -> Reader:
    """Return a reader of one of some words; its error names them all."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise Expected("one of " + ", ".join(words))

    return read


def positive(value: object) -> int:
    """Read a whole number from 1."""
    found = count(value)
    if not found:
        raise Expected("a whole number of at least 1")
    return found


def environment(value: object) -> dict[str, str]:
    """Read a table of environment variables: valid names, and strings as values."""
    if not isinstance(value, dict):
        raise Expected(f"a table of strings, not {kind(value)}")
    return dict(zip(value, _each(value.items(), _variable), strict=True))


def _variable(name: str, content: object) -> str:
    if not name or "=" in name or "\0" in name:
        raise Expected('a name of a variable: not empty, and without "="')
    text(name)
    return _quoted_text(content)


def _quoted_text(value: object) -> str:
    """Read a string; for a number and the like the error suggests quotes."""
    try:
        return text(value)
    except Expected as wrong:
        hint = "" if isinstance(value, (str, dict, list)) else ': write it in quotes, "…"'
        raise Expected(wrong.wanted + hint) from None


def _each(parts: Iterable[tuple[Any, Any]], read: Callable[[Any, Any], str]) -> list[str]:
    """Read each part of a list or a table; raise one ``Expected`` for all invalid parts."""
    found, wrong = [], []
    for key, part in parts:
        try:
            found.append(read(key, part))
        except Expected as one:
            wrong.append(Expected(one.wanted, path=(key,)))
    if wrong:
        raise Expected.together(wrong)
    return found


def roots(value: object) -> tuple[str, ...] | str:
    """Read a list of URIs, or the word ``session``."""
    if value == "session":
        return "session"
    if isinstance(value, str):
        raise Expected('a list of URIs, or "session"')
    return tuple(_each(enumerate(texts(value)), _uri))


def _uri(_: int, value: str) -> str:
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", value):
        raise Expected('a URI such as "file:///home/ada/src"')
    return value


def listen(value: object) -> tuple[str, ...]:
    """Read an address to listen on, or a list of them; an empty string is none."""
    if isinstance(value, str):
        return (_address(0, text(value)),) if value else ()
    if not isinstance(value, list):
        raise Expected(f"an address or a list of addresses, not {kind(value)}")
    return tuple(dict.fromkeys(_each(enumerate(texts(value)), _address)))


def _address(_: int, value: str) -> str:
    if parse(value) is None:
        raise Expected('an IP address with its port, such as "127.0.0.1:6273", or "unix:/PATH"')
    return value


def origins(value: object) -> tuple[str, ...]:
    """Read a list of origins of web pages."""
    return tuple(_each(enumerate(texts(value)), _origin))


def _origin(_: int, value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/*?#]+", value):
        raise Expected('an origin such as "http://localhost:6274", in lower case; "*" is not one')
    return value


def hosts(value: object) -> tuple[str, ...]:
    """Read a list of host names, with or without a port."""
    return tuple(host.lower() for host in _each(enumerate(texts(value)), _host))


def _host(_: int, value: str) -> str:
    if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:[0-9]{1,5})?", value):
        raise Expected('a host name such as "mcp.example.com"')
    return value


def directories(value: object) -> tuple[str, ...]:
    """Read a list of directories, absolute or below the home directory."""
    return tuple(_each(enumerate(texts(value)), _directory))


def _directory(_: int, value: str) -> str:
    if not value.startswith(("/", "~/")) or not value.strip("~/") or ".." in value.split("/"):
        raise Expected('a directory that begins with "/" or "~/", such as "~/src/*"')
    return value


def extensions(value: object) -> tuple[str, ...]:
    """Read a list of names of MCP extensions, such as ``io.modelcontextprotocol/ui``."""
    if isinstance(value, str):
        raise Expected("a list of extensions")
    return tuple(_each(enumerate(texts(value)), _extension))


def _extension(_: int, value: str) -> str:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise Expected('an extension such as "io.modelcontextprotocol/ui"')
    return value


def headers(value: object) -> dict[str, str]:
    """Read a table of headers: valid names, and strings as values."""
    if not isinstance(value, dict):
        raise Expected(f"a table of strings, not {kind(value)}")
    return dict(zip(value, _each(value.items(), _header), strict=True))


def _header(name: str, content: object) -> str:
    header_name(name)
    return _quoted_text(content)


def header_name(value: object) -> str:
    """Read a name of a header."""
    found = text(value)
    if not _TOKEN.fullmatch(found):
        raise Expected("a name of a header: letters, digits and hyphens")
    return found


def header_fault(value: str) -> str | None:
    """Return what is wrong with the value of a header, or ``None`` (RFC 9110, section 5.5)."""
    if any((char < " " and char != "\t") or char == "\x7f" for char in value):
        return "expected one line, without line breaks and control characters"
    return None


def variables(value: object) -> dict[str, str]:
    """Read a table of names of variables, as the templates that have their values."""
    if not isinstance(value, dict):
        raise Expected(f"a table of names of variables, not {kind(value)}")
    return dict(zip(value, _each(value.items(), lambda _, name: variable(name)), strict=True))


def variable(value: object) -> str:
    """Read the name of a variable, as the template that has its value."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise Expected("the name of a variable")
    return f"${{{value}}}"


def positive_seconds(value: object) -> float:
    """Read a duration that is not 0."""
    found = seconds(value)
    if not found:
        raise Expected("more than 0 seconds")
    return found


def port(value: object) -> int:
    """Read a port; 0 is any that is free."""
    found = count(value)
    if found > MOST_PORT:
        raise Expected(f"a port from 0 to {MOST_PORT}")
    return found


def scopes(value: object) -> tuple[str, ...]:
    """Read scopes of OAuth: a list, or text with blanks between them."""
    found = value.split() if isinstance(value, str) else value
    return tuple(_each(enumerate(texts(found)), _scope))


def _scope(_: int, value: str) -> str:
    if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", value):  # RFC 6749, section 3.3
        raise Expected("a scope: one word without quotes")
    return value


def authorize_params(value: object) -> dict[str, str]:
    """Read a table of further parameters of an authorization request, none that OAuth sets."""
    if not isinstance(value, dict):
        raise Expected(f"a table of strings, not {kind(value)}")
    return dict(zip(value, _each(value.items(), _parameter), strict=True))


def _parameter(name: str, content: object) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):  # RFC 6749, section 8.2
        raise Expected("a name of a parameter: letters, digits, dots, hyphens and underscores")
    if name.lower() in _OF_OAUTH:  # some servers read names in any case
        raise Expected("another parameter: mcpd itself decides about this one")
    found = _quoted_text(content)
    if not found.strip():
        raise Expected("a string that is not empty")
    return found
