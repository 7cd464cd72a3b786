"""A server as a project's file offers it: what it would run, and the hash that is trusted."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mcpd.config import entry
from mcpd.config.reading.findings import Findings
from mcpd.config.reading.remote_table import URLS
from mcpd.config.texts.interpolate import Piece
from mcpd.config.texts.resolving import Surroundings
from mcpd.config.texts.secrets import is_secret_name, show
from mcpd.formats.document import Document, KeyPath
from mcpd.redact import MASK

_VARIABLE: Final = re.compile(
    r"\$(?:\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?=\}|:-)|([A-Za-z_][A-Za-z0-9_]*))"
)
_KEYRING: Final = re.compile(r"\$\{keyring:([^}]+)\}")
_REFERENCE: Final = re.compile(r"\$\{[^{}]+\}|\$[A-Za-z_][A-Za-z0-9_]*")
_NO_VARIABLES: Final = frozenset({"workspaceFolder", "workspaceFolderBasename", "userHome"})
_VARIABLE_KEYS: Final = re.compile(r"env_?var$|env_http_headers$|TokenEnv$", re.IGNORECASE)
"""Keys whose values are names of variables."""

_DIGITS: Final = 6
"""Of the hash of a value that is masked."""

_ENV_FILES: Final = ("env_file", "envFile")

_OWN_LINES: Final = ("command", "args", "env", *URLS)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a project. Nothing of it has been looked up in an environment."""

    name: str
    file: str
    """The absolute path of the file, below the workspace."""

    path: KeyPath
    """Where its table stands in the file."""

    document: Document
    content: Mapping[str, Any]
    """Its table, without what a project may not set."""

    hash: str
    """Of the name and the content, whatever their order, and the comments in between."""

    @property
    def line(self) -> int:
        """The line of its key in the file, from 1."""
        return self.document.place_of_key(self.path)[0]

    @property
    def args(self) -> list[str]:
        """Its command and arguments, as far as they are texts."""
        args = self.content.get("args")
        words = [self.content.get("command"), *(args if isinstance(args, list) else ())]
        return [word for word in words if isinstance(word, str)]

    @property
    def url(self) -> str | None:
        """Its address, if it is reached by one."""
        found = (self.content.get(key) for key in URLS)
        return next((each for each in found if isinstance(each, str)), None)

    def variables(self) -> list[str]:
        """Return the names of the variables that it would get, in alphabetical order."""
        found = set(_named_variables(self.content))
        for text in _texts(self.content):
            plain = text.replace("$$", "")
            found.update(each[1] or each[2] for each in _VARIABLE.finditer(plain))
        return sorted(found - _NO_VARIABLES)

    def keyring(self) -> list[str]:
        """Return the names of the secrets that it would get, in alphabetical order."""
        return sorted({name for text in _texts(self.content) for name in _KEYRING.findall(text)})

    def programs(self, directory: str) -> list[str]:
        """Return what it would run or read of the files in a directory, which no hash covers."""
        cwd = self.content.get("cwd")
        start = os.path.join(directory, cwd if isinstance(cwd, str) else "")
        found = [
            word
            for at, word in enumerate(self.args)
            if "$" not in word
            and _is_below(place := os.path.normpath(os.path.join(start, word)), directory)
            and (os.path.isfile(place) or (at == 0 and "/" in word))
        ]
        return [*found, *self._env_files(directory)]

    def _env_files(self, directory: str) -> list[str]:
        start = os.path.realpath(os.path.dirname(self.file))
        return [
            each
            for key in _ENV_FILES
            if isinstance(each := self.content.get(key), str)
            and _is_below(os.path.normpath(os.path.join(start, each)), directory)
        ]

    def lines(self, directory: str) -> list[str]:
        """Return what it would run, and with what, for people.

        The command is shown in full: a mask could hide what runs. In other values secrets are
        masked, with a few digits that change with them. ``directory`` is that of the project.
        """
        lines = [f"connects to {_shown(self.url, is_address=True)}"] if self.url else []
        if self.args:
            lines.append(f"runs {shlex.join(self.args)}")
        env = self.content.get("env")
        if isinstance(env, dict):
            lines += [f"sets {key}={_of_key(key, value)}" for key, value in sorted(env.items())]
        for key, value in sorted(self.content.items()):
            if key not in _OWN_LINES:
                lines.append(f"{key}: {_of_key(key, value)}")
        gets = [*self.variables(), *(f"keyring {name}" for name in self.keyring())]
        if gets:
            lines.append(f"gets from you: {', '.join(gets)}")
        if self.args and self.content.get("inherit_env", "all") == "all":
            lines.append("inherits the whole environment of the daemon")
        for program in self.programs(directory):
            lines.append(f"{program} is a file of this repository; its content is not pinned")
        return [_on_one_line(line) for line in lines]

    def entry(
        self, name: str, directory: str, env: Mapping[str, str], since: str | None
    ) -> entry.ServerEntry:
        """Return the entry, with variables resolved. Call it for what is trusted alone."""
        around = Surroundings(env=env, cwd=directory, workspace=directory, since=since)
        findings = Findings(self.file, self.document)
        return entry.build(dict(self.content), self.path, name, findings, around)


def digest(name: str, content: object) -> str:
    """Return the hash of a server's table."""
    return hash_of([name, content])


def hash_of(value: object) -> str:
    """Return the SHA-256 of a value as JSON, in hexadecimal; the order of members is no matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _on_one_line(text: str) -> str:
    """Return a text with its line breaks visible: behind ``#`` a shell runs what follows one.

    JSON can have half of a surrogate pair, which no file and no message can.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _is_below(place: str, directory: str) -> bool:
    return place.startswith(directory.rstrip("/") + "/")


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for each in value.values():
                yield from _texts(each)


def _named_variables(content: Mapping[str, Any]) -> Iterator[str]:
    for key, value in content.items():
        if isinstance(value, dict) and not _VARIABLE_KEYS.search(key):
            yield from _named_variables(value)
        elif _VARIABLE_KEYS.search(key):
            yield from _texts(value)


def _of_key(key: str, value: object) -> str:
    """Return a value for people, by its key."""
    match value:
        case str():
            return _shown(value, is_secret=is_secret_name(key))
        case dict():
            members = (f"{name} = {_of_key(name, each)}" for name, each in sorted(value.items()))
            return f"{{{', '.join(members)}}}"
        case list():
            return f"[{', '.join(_of_key(key, each) for each in value)}]"
        case _:
            return json.dumps(value, default=str)


def _shown(text: str | None, *, is_secret: bool = False, is_address: bool = False) -> str:
    if text is None or _REFERENCE.fullmatch(text):  # a variable's name is what has to be seen
        return text or ""
    shown = show((Piece(text),), secret=is_secret, is_address=is_address).text
    return f"{shown} ({hash_of(text)[:_DIGITS]})" if MASK in shown else shown
