"""Parses the ``env_file`` of a server: lines of ``KEY=VALUE``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpd.config.files import trust
from mcpd.errors import ConfigError
from mcpd.formats.document import decode

_LINE = re.compile(r"(?:export[ \t]+)?([^=]*?)[ \t]*=[ \t]*(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_COMMENT = re.compile(r"(?:^|[ \t]+)#.*")
_REST = re.compile(r"[ \t]*(?:#.*)?")
_ESCAPE = re.compile(r"\\(.)")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"(.*)')
_SINGLE = re.compile(r"'([^']*)'(.*)")
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}


def read(path: str) -> dict[str, str]:
    """Return the variables of a file that only its owner may read.

    The owner and mode of a link's target count. Raises ``ConfigError``; its message has the file
    and the line of a mistake, but no value.
    """
    try:
        content = trust.read(path, is_private=True)
        if content is None:
            raise ConfigError("there is no such file")
        return parse(content)
    except ConfigError as error:
        line = error.details.get("line")
        place = path if line is None else f"{path}:{line}"
        raise ConfigError(f"{place}: {error.message}") from None


def parse(content: bytes) -> dict[str, str]:
    """Return the variables in a file's content; if a name occurs twice, the last value counts.

    A line is ``NAME=VALUE``, optionally after ``export``, or blank, or a comment with ``#``. In
    single quotes a value is literal; in double quotes the escapes ``\\n``, ``\\r``, ``\\t``,
    ``\\"``, ``\\\\``, ``\\$`` and ``\\``` are replaced; without quotes a value ends at the end of
    the line, or at a ``#`` after a blank. Variables and commands are not expanded. Raises
    ``ConfigError`` with the line number, but not the line's content.
    """
    return dict(_variables(decode(content)))


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        found = _LINE.fullmatch(bare)
        if found is None:
            raise _wrong(number, "expected KEY=VALUE")
        if not _NAME.fullmatch(found[1]):
            raise _wrong(number, 'expected the name of a variable before the "="')
        value = _value(found[2], number)
        if "\0" in value:
            raise _wrong(number, "expected a value without NUL characters")
        yield found[1], value


def _value(text: str, number: int) -> str:
    if not text.startswith(("'", '"')):
        return _COMMENT.sub("", text, count=1)
    found = (_SINGLE if text[0] == "'" else _DOUBLE).fullmatch(text)
    if found is None:
        raise _wrong(number, "expected the closing quote on the same line")
    if not _REST.fullmatch(found[2]):
        raise _wrong(number, "expected nothing but a comment after the closing quote")
    if text[0] == "'":
        return found[1]
    return _ESCAPE.sub(lambda each: _MEANINGS.get(each[1], each[0]), found[1])


def _wrong(line: int, message: str) -> ConfigError:
    return ConfigError(message, line=line)
