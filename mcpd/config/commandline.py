"""Splits a ``command`` that is a whole command line, as a shell would, where that is safe."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable

_OPTION_AND_VALUE = re.compile(r"-{1,2}[A-Za-z0-9][A-Za-z0-9_-]*\s+\S", re.ASCII)


class Unbalanced(ValueError):
    """A command line whose quotes do not match."""


def has_blanks(command: str) -> bool:
    """Return whether a command may be a whole command line."""
    return len(command.split(None, 1)) > 1


def split(command: str, is_program: Callable[[str], bool]) -> list[str] | None:
    """Return the words of a command line, or ``None`` if ``command`` is a program as written.

    ``is_program`` returns whether a text names a program. A path with blanks that exists is one
    word, also if arguments follow it. If neither that path nor the first word exists, the result is
    ``None``: the path is wrong. Raises ``Unbalanced``.
    """
    if is_program(command):
        return None
    ends = [found.start() for found in re.finditer(r"\s+", command.rstrip())]
    for end in reversed(ends[1:]):
        if is_program(command[:end]) and "/" in command[:end]:
            return [command[:end], *_words(command[end:])]
    words = _words(command)
    if not words or ("/" in words[0] and not is_program(words[0])):
        return None
    return words


def is_option_and_value(argument: str) -> bool:
    """Return whether an argument looks like an option and its value: ``-y pkg``."""
    return _OPTION_AND_VALUE.match(argument) is not None


def is_there(command: str, cwd: str, path: str | None) -> bool:
    """Return whether ``command`` exists: relative to ``cwd``, or on ``path`` without a slash."""
    if "/" in command:
        return os.path.isfile(os.path.join(cwd, command))
    directories = (path or os.defpath).split(os.pathsep)
    return any(os.path.isfile(os.path.join(cwd, each, command)) for each in directories)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise Unbalanced("a quote without the one that closes it") from None
