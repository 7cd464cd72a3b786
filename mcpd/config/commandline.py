"""Commands as people type them into a shell: recognised, and taken apart where that is safe."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable

_OPTION_AND_VALUE = re.compile(r"-{1,2}[A-Za-z0-9][A-Za-z0-9_-]*\s+\S", re.ASCII)


class Unbalanced(ValueError):
    """A command line whose quotes do not match."""


def has_blanks(command: str) -> bool:
    """Say whether a command may be a whole command line."""
    return len(command.split(None, 1)) > 1


def split(command: str, is_program: Callable[[str], bool]) -> list[str] | None:
    """Return the words of a command line, ``None`` for what is a program as it stands.

    ``is_program`` says whether a text, as it is written, names one. A path with blanks in it is
    kept whole where it is there, also with arguments after it; and where neither it nor its first
    word is there: then it is the path that is wrong. Raises ``Unbalanced``.
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
    """Say whether an argument looks like two: ``-y pkg``."""
    return _OPTION_AND_VALUE.match(argument) is not None


def is_there(command: str, cwd: str, path: str | None) -> bool:
    """Say whether a file has this name: from ``cwd``, or without a slash in it on ``path``."""
    if "/" in command:
        return os.path.isfile(os.path.join(cwd, command))
    directories = (path or os.defpath).split(os.pathsep)
    return any(os.path.isfile(os.path.join(cwd, each, command)) for each in directories)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise Unbalanced("a quote without the one that closes it") from None
