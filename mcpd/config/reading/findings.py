"""Collects the problems found while a file is turned into values, with their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcpd.config.problems import Problem, Severity, key_text
from mcpd.config.reading.values import Expected, Reader
from mcpd.errors import ConfigError
from mcpd.formats.document import Document, KeyPath


class Findings:
    """The problems of one file, or of one entry received over the socket."""

    def __init__(self, file: str, document: Document | None) -> None:
        self.file = file
        self.document = document
        self.problems: list[Problem] = []

    def error(self, path: KeyPath, message: str, *, server: str | None = None) -> None:
        """Record an error that makes the entry or the daemon's key unusable, at its value."""
        place = self.document.place_of_value(path) if self.document else None
        self._add("error", place, path, message, server)

    def warning(self, path: KeyPath, message: str, *, server: str | None = None) -> None:
        """Record a warning at its key; the value is used."""
        place = self.document.place_of_key(path) if self.document else None
        self._add("warning", place, path, message, server)

    def refusal(self, error: ConfigError) -> None:
        """Record that the whole file cannot be used, at the error's position."""
        line, column = error.details.get("line"), error.details.get("column")
        place = None if line is None or column is None else (line, column)
        self._add("error", place, (), error.message, None)

    def _add(
        self,
        severity: Severity,
        place: tuple[int, int] | None,
        path: KeyPath,
        message: str,
        server: str | None,
    ) -> None:
        line, column = place or (None, None)
        self.problems.append(
            Problem(
                severity=severity,
                message=message,
                file=self.file,
                line=line,
                column=column,
                key=key_text(path),
                server=server,
            )
        )


class Table:
    """One table of a file, read key by key with the schema's readers."""

    def __init__(
        self, content: Mapping[str, object], path: KeyPath, findings: Findings, server: str | None
    ) -> None:
        self.content = content
        self.path = path
        self._findings = findings
        self._server = server

    def read(self, key: str, reader: Reader) -> object | None:
        """Return the value of a key, or ``None`` if it is missing or wrong (then recorded)."""
        if key not in self.content:
            return None
        try:
            found: object = reader(self.content[key])
        except Expected as wrong:
            for one in wrong:
                self._findings.error(
                    (*self.path, key, *one.path), f"expected {one.wanted}", server=self._server
                )
            return None
        return found

    def read_all(self, readers: Mapping[str, Reader]) -> dict[str, object]:
        """Return the values of all keys that exist and are valid."""
        found = {key: self.read(key, reader) for key, reader in readers.items()}
        return {key: value for key, value in found.items() if value is not None}

    def inner(self, key: str, readers: Mapping[str, Reader]) -> dict[str, object]:
        """Read a table within this one, and warn of its unknown keys."""
        table = self.within(key)
        table.warn_of_unknown(readers)
        return table.read_all(readers)

    def within(self, key: str) -> Table:
        """Return the table within this one; an empty one if it is missing or none (recorded)."""
        content = self.content.get(key, {})
        if not isinstance(content, dict):
            self.error(key, "expected a table")
            content = {}
        return Table(content, (*self.path, key), self._findings, self._server)

    def warn_of_unknown(self, known: Iterable[str]) -> None:
        """Warn of each unknown key, and suggest the nearest known one."""
        names = list(known)
        for key in self.content:
            if key not in names:
                near = nearest(key, names)
                advice = f"; did you mean {near}?" if near else ""
                self.warning(key, f"unknown key, which changes nothing{advice}")

    def error(self, key: str | None, message: str) -> None:
        """Record an error of a key, or of the table as a whole."""
        path = self.path if key is None else (*self.path, key)
        self._findings.error(path, message, server=self._server)

    def error_within(self, place: KeyPath, message: str) -> None:
        """Record an error of a key in a table within this one."""
        self._findings.error((*self.path, *place), message, server=self._server)

    def warning(self, key: str, message: str) -> None:
        """Record a warning about a key."""
        self._findings.warning((*self.path, key), message, server=self._server)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most similar to ``word``, or ``None``."""
    from difflib import get_close_matches  # imported only for a mistake

    spelled: dict[str, str] = {}
    for name in known:
        spelled.setdefault(_plain(name), name)
    found = get_close_matches(_plain(word), list(spelled), n=1, cutoff=0.6)
    return spelled[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
