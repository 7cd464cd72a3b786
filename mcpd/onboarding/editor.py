"""mcpd's own configuration in a person's editor: what is edited, checked and saved."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping

from mcpd.config.files import trust
from mcpd.config.load import load
from mcpd.config.problems import Problem
from mcpd.editing import replace
from mcpd.errors import ConfigError
from mcpd.onboarding import changes, shown

EMPTY: Mapping[str, bytes] = {".toml": b"", ".json": b'{\n  "mcpServers": {\n  }\n}\n'}
"""What a person begins with where there is no file, by its ending."""


def begin(explicit: str | None) -> tuple[str, bytes]:
    """Return the file that a person edits, and its content; ``explicit`` is ``--config``.

    Raises ``ConfigError`` for a file that others could have written, or that cannot be read.
    """
    file = changes.Scope(explicit).own_file()
    raw = trust.read(file)
    return file, EMPTY.get(os.path.splitext(file)[1].lower(), b"") if raw is None else raw


class Copy:
    """A copy of the file for an editor. It stands beside the file, which may name others by it."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self._first = content
        self.is_gone = False
        """Whether it was removed."""

    @property
    def is_changed(self) -> bool:
        """Whether a person has typed anything."""
        return self.read() != self._first

    def read(self) -> bytes:
        """Return its content; the first one if the editor has removed it."""
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return self._first

    def forget(self) -> None:
        """Remove it."""
        if not self.is_gone:
            self.is_gone = True
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def told(self) -> str:
        """Return the end of a message that says where lies what was typed."""
        return f"; what you typed is in {self.path}" if self.is_changed else ""


@contextlib.contextmanager
def copied(file: str, content: bytes) -> Iterator[Copy]:
    """Make a copy for an editor. One that was changed stays, unless it is forgotten."""
    directory, name = os.path.split(file)
    stem, ending = os.path.splitext(name)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        fd, path = tempfile.mkstemp(prefix=f".{stem}.edit-", suffix=ending, dir=directory)
        with os.fdopen(fd, "wb") as opened:
            opened.write(content)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from None
    copy = Copy(path, content)
    try:
        yield copy
    finally:
        if not copy.is_gone and not copy.is_changed:
            copy.forget()


def problems(copy: str) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of a file that was edited, each with its line.

    A variable that is not set is a warning: what counts is the environment of the daemon.
    """
    loaded = load(copy, os.environ)
    unset = {
        problem
        for entry in loaded.entries.values()
        if entry.unset is not None
        for problem in entry.problems
        if problem.severity == "error" and entry.unset in problem.message
    }
    errors = [each for each in loaded.errors if each not in unset]
    warnings = [each for each in loaded.problems if each not in errors]
    return list(map(_told, errors)), list(map(_told, warnings))


def save(file: str, before: bytes, after: bytes) -> None:
    """Save what was edited; raise ``ConfigError`` if the file has been changed meanwhile.

    A file with a secret in the clear can be read by its owner alone.
    """

    def saved(found: bytes | None) -> bytes:
        if found is not None and found != before:
            raise ConfigError(f"{file} was changed meanwhile, and is left so")
        return after

    replace.change(file, saved, private=_has_secret(file, after))


def _has_secret(file: str, content: bytes) -> bool:
    return any(
        isinstance(entry, dict) and shown.secrets(entry)
        for entry in changes.entries_of(file, content).values()
    )


def _told(problem: Problem) -> str:
    place = "" if problem.line is None else f"line {problem.line}, column {problem.column}"
    return ": ".join(filter(None, (place, problem.key, problem.message)))
