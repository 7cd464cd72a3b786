"""Translates the variables in a client's texts into mcpd's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mcpd.onboarding.clients.client import Part, Variables

_TOKEN: Final = re.compile(
    r"(?P<template>\$\{\{.*?\}\})"
    r"|\$\{(?P<braced>[^{}]*)\}"
    r"|(?P<command>\$\([^)]*\)?|`[^`]*`)"
    r"|\$(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<open>(?:env|file):[^{}]*)\}"
    r"|%(?P<percent>[A-Za-z_][A-Za-z0-9_]*)%"
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):-(.*)", re.DOTALL)
_NESTED: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:-[^{}]*\$\{[^{}]*\}[^{}]*\}?")
_OURS: Final = re.compile(r"\$(?:\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


ANY_OTHER: Final = "${"
"""In ``Variables.own``: every form in braces that is not one of ``forms``."""


NOTHING: Final[Mapping[str, str]] = {}


class Unmovable(Exception):
    """An entry that stays with its client. The message says why, without a secret."""


def translated(
    text: str, variables: Variables, part: Part, answers: Mapping[str, str] = NOTHING
) -> str:
    """Return what mcpd reads as the client reads ``text``.

    ``answers`` are the values of what VS Code asks its user for, by ``${input:ID}``.
    Raises ``Unmovable`` for what only the client can resolve.
    """
    forms: frozenset[str] = frozenset()
    if part in variables.where:
        forms = frozenset(variables.forms) | frozenset(variables.in_env if part == "env" else ())
        if "${VAR:-d}" in forms and (nested := _NESTED.search(text)):
            raise Unmovable(f"{nested[0]} has a default with a variable in it")
    default = ":-" if part in variables.unset_is_empty else ""
    out: list[str] = []
    at = 0
    for token in _TOKEN.finditer(text):
        out.append(_literal(text[at : token.start()]))
        answer = answers.get(token[0])
        if answer is None:
            out.append(_replaced(token, forms, variables.own, default))
        else:
            out.append(_literal(answer))
        at = token.end()
    out.append(_literal(text[at:]))
    return "".join(out)


def normal(text: str) -> str:
    """Return a text of mcpd's with each variable in one spelling, to compare texts."""
    parts = text.split("$$")
    return "$$".join(
        _OURS.sub(lambda found: f"${{{found[1] or found[2]}}}", part) for part in parts
    )


def _literal(text: str) -> str:
    return text.replace("$", "$$")


def _replaced(
    token: re.Match[str], forms: frozenset[str], own: tuple[str, ...], default: str
) -> str:
    """Return a token in mcpd's spelling."""
    whole, braced = token[0], token["braced"]
    if any(whole.startswith(each) for each in own if each != ANY_OTHER):
        raise Unmovable(f"only the client can resolve {whole}")
    name, value = None, default
    if braced is not None:
        if whole in forms:  # ${userHome}, which mcpd knows
            return "/" if braced == "pathSeparator" else whole
        if braced == "/" and "${pathSeparator}" in forms:
            return "/"
        if _NAME.fullmatch(braced):
            name = braced if "${VAR}" in forms else None
        elif braced.startswith("env:"):
            name = braced.removeprefix("env:") if "${env:VAR}" in forms else None
        elif (found := _DEFAULT.fullmatch(braced)) and "${VAR:-d}" in forms:
            name, value = found[1], f":-{_literal(found[2])}"
        if name is None and ANY_OTHER in own:
            raise Unmovable(f"only the client can resolve {whole}")
    elif token["bare"] and "$VAR" in forms:
        name = token["bare"]
    elif token["percent"] and "%VAR%" in forms:
        name = token["percent"]
    elif (opened := token["open"]) and opened.startswith("env:") and "{env:VAR}" in forms:
        name = opened.removeprefix("env:")
    if name is None:
        return _literal(whole)
    if not _NAME.fullmatch(name):
        raise Unmovable(f"{whole} is not the name of a variable")
    return f"${{{name}{value}}}"
