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

    A project is the nearest directory with ``.git``, ``.hg`` or ``.mcp.json``, below the home
    directory; where there is none, ``cwd`` itself. ``/`` is no project: it is where clients are
    that were started from nowhere.
    """
    named = next(filter(None, map(_directory_of, roots)), None)
    if named is not None:
        return named
    here = _plain(cwd or "/")
    if here == "/":
        return None
    home = _plain(paths.home())
    place = here
    for _ in range(MOST_PARENTS):
        if place in ("/", home):
            break
        if any(os.path.lexists(os.path.join(place, mark)) for mark in WORKSPACE_MARKS):
            return place
        place = os.path.dirname(place)
    return here


def _directory_of(root: str) -> str | None:
    """Return the directory that a root's URI names, ``None`` for any other URI."""
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
    """Return an absolute path as the kernel takes it; two slashes at its head are one."""
    return os.path.normpath("/" + path.lstrip("/"))
