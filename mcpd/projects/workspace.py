"""Which directory a session works in."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from mcpd import paths

WORKSPACE_MARKS = (".git", ".hg", ".mcp.json")

MOST_PARENTS = 100
"""How many directories are searched for a mark, from the client's own upwards."""

ROOT_CHARACTERS = 8192
"""A longer URI names no directory: each character of a path may be three of a URI."""


def workspace_of(roots: tuple[str, ...], cwd: str | None) -> str | None:
    """Return the directory that a session works in: its first root, else its project.

    A project is the nearest directory, from ``cwd`` upwards to the home directory, that has
    ``.git``, ``.hg`` or ``.mcp.json``; if there is none, ``cwd`` itself. ``/`` is no project: it is
    the directory of clients that a desktop has started.
    """
    named = next(filter(None, map(_directory_of, roots)), None)
    if named is not None:
        return named
    here = _plain(cwd or "/")
    if here == "/":
        return None
    home = _plain(paths.home())
    directory = here
    for _ in range(MOST_PARENTS):
        if directory in ("/", home):
            break
        if any(os.path.lexists(os.path.join(directory, mark)) for mark in WORKSPACE_MARKS):
            return directory
        directory = os.path.dirname(directory)
    return here


def _directory_of(root: str) -> str | None:
    """Return the directory that the URI of a root names, or ``None`` if it names none."""
    if len(root) > ROOT_CHARACTERS:
        return None
    try:
        parts = urlsplit(root)
    except ValueError:  # half of an IPv6 address
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or not path.startswith("/") or "\0" in path:
        return None
    return _plain(path)


def _plain(path: str) -> str:
    """Return a normalised absolute path; ``normpath`` would keep two slashes at its head."""
    return os.path.normpath("/" + path.lstrip("/"))
