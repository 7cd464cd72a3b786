"""Resolves variables and ``~`` in a text, and records which variable each part came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from mcpd.config.texts import secretnames, workspace

NESTING_LIMIT = 20
"""Nested defaults at most."""

USER_HOME = "userHome"
"""An editor's word for the home directory."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-)?")


class Piece(msgspec.Struct, frozen=True):
    """A part of a resolved text; ``variable`` is its source, ``None`` for the file itself."""

    text: str
    variable: str | None = None


class Variables(Mapping[str, str]):
    """An environment; ``lacking`` are the names that were looked up and are not set in it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.lacking: set[str] = set()

    def __getitem__(self, name: str) -> str:
        found = self._env.get(name)
        if found is None:
            self.lacking.add(name)
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


class Unresolved(ValueError):
    """A text that cannot be resolved. The message completes "KEY: …" and contains no value.

    ``variable`` is the variable that is not set, ``None`` if the text itself is wrong.
    """

    def __init__(self, message: str, *, variable: str | None = None) -> None:
        super().__init__(message)
        self.variable = variable


def resolve(template: str, env: Mapping[str, str]) -> tuple[Piece, ...]:
    """Resolve the variables in a text, and then a leading ``~``.

    The forms are ``$VAR``, ``${VAR}``, ``${env:VAR}``, ``${VAR:-default}`` (the default is also
    used for an empty variable, and may contain variables and paired braces), and ``$$`` for a
    dollar sign. A dollar sign before anything else is literal. ``~`` is resolved alone or before a
    slash, and only if the file itself contains it. ``${userHome}`` means ``~``. For
    ``${workspaceFolder}``, ``${workspaceFolderBasename}`` and ``${keyring:NAME}`` the result has a
    placeholder: see ``workspace`` and ``secretnames``. Raises ``Unresolved``.
    """
    pieces = _expand(template, env, 0)
    return _with_home(pieces, env)


def joined(pieces: tuple[Piece, ...]) -> str:
    """Return the resolved text."""
    return "".join(piece.text for piece in pieces)


def _expand(template: str, env: Mapping[str, str], depth: int) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    at = 0
    while (dollar := template.find("$", at)) >= 0:
        pieces.append(Piece(template[at:dollar]))
        following = template[dollar + 1 : dollar + 2]
        if following == "{":
            found, at = _braced(template, dollar, env, depth)
            pieces.extend(found)
        elif (name := _NAME.match(template, dollar + 1)) is not None:
            pieces.append(_variable(name[0], env))
            at = name.end()
        else:
            pieces.append(Piece("$"))
            at = dollar + (2 if following == "$" else 1)
    pieces.append(Piece(template[at:]))
    return tuple(piece for piece in pieces if piece.text)


def _braced(
    template: str, dollar: int, env: Mapping[str, str], depth: int
) -> tuple[tuple[Piece, ...], int]:
    end = _closing(template, dollar + 2)
    inner = template[dollar + 2 : end]
    if inner.startswith(secretnames.PREFIX):
        return (_secret(inner),), end + 1
    name, _, default = inner.partition(":")
    if name in workspace.VARIABLES or name == USER_HOME:
        if default:
            raise Unresolved(f"${{{name}}} has no default: it is known, or nothing can start")
        known = home(env) if name == USER_HOME else workspace.VARIABLES[name]
        return (Piece(known, "HOME" if name == USER_HOME else name),), end + 1
    head = _BRACED.match(template, dollar + 2, end)
    if head is None or (head[2] is None and head.end() != end):
        raise Unresolved(
            "this form of ${…} is not known: write ${VAR}, ${env:VAR}, ${VAR:-default}, "
            "${keyring:NAME}, ${workspaceFolder} or ${userHome}, and $$ for a dollar sign"
        )
    if head[2] is None:
        return (_variable(head[1], env),), end + 1
    if value := env.get(head[1]):
        return (Piece(value, head[1]),), end + 1
    if depth >= NESTING_LIMIT:
        raise Unresolved(f"defaults nested more than {NESTING_LIMIT} deep")
    return _expand(template[head.end() : end], env, depth + 1), end + 1


def _closing(template: str, start: int) -> int:
    """Return the offset of the brace that closes the one just before ``start``."""
    depth = 1
    for at in range(start, len(template)):
        depth += {"{": 1, "}": -1}.get(template[at], 0)
        if depth == 0:
            return at
    raise Unresolved('"${" without its "}"; a dollar sign is written $$')


def _secret(inner: str) -> Piece:
    """Return what stands for a secret until the server starts."""
    name = inner.removeprefix(secretnames.PREFIX)
    if not secretnames.is_name(name):
        raise Unresolved(
            f"${{{secretnames.PREFIX}…}} takes the name of a secret: letters, digits, _, - and ., "
            f"{secretnames.MOST_CHARACTERS} at most, and no default"
        )
    return Piece(secretnames.placeholder(name), inner)


def _variable(name: str, env: Mapping[str, str]) -> Piece:
    if (value := env.get(name)) is None:
        raise Unresolved(f"the variable {name} is not set, and has no default", variable=name)
    return Piece(value, name)


def _with_home(pieces: tuple[Piece, ...], env: Mapping[str, str]) -> tuple[Piece, ...]:
    if not pieces or pieces[0].variable is not None or pieces[0].text[0] != "~":
        return pieces
    if joined(pieces) != "~" and not joined(pieces).startswith("~/"):
        return pieces
    base = home(env)
    if base == "/" and joined(pieces) != "~":
        base = ""  # the slash after ~ is there already
    return (Piece(base, "HOME"), Piece(pieces[0].text[1:]), *pieces[1:])


def home(env: Mapping[str, str]) -> str:
    """Return the home directory; raise ``Unresolved`` if ``HOME`` is not an absolute path."""
    found = env.get("HOME", "")
    if not found.startswith("/"):
        raise Unresolved("~ has no meaning here: HOME is not set to a directory", variable="HOME")
    return found.rstrip("/") or "/"
