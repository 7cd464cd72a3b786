"""The columns of the table of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from mcpd.editing.file import Format

Part = Literal["command", "args", "env", "cwd", "url", "headers"]

EVERYWHERE: tuple[Part, ...] = ("command", "args", "env", "cwd", "url", "headers")


class Variables(msgspec.Struct, frozen=True, kw_only=True):
    """What a client replaces in the texts of an entry; everything else is literal."""

    forms: tuple[str, ...] = ()
    """Of ``$VAR``, ``${VAR}``, ``${VAR:-d}``, ``${env:VAR}``, ``{env:VAR}``, ``%VAR%``,
    ``${userHome}`` and ``${pathSeparator}``."""

    in_env: tuple[str, ...] = ()
    """Forms that are replaced in ``env`` alone."""

    where: tuple[Part, ...] = EVERYWHERE
    """The parts of an entry in which they are replaced."""

    unset_is_empty: tuple[Part, ...] = ()
    """The parts in which a variable that is not set is empty text."""

    own: tuple[str, ...] = ()
    """Beginnings of what the client alone can resolve: ``${input:``, ``${{``, ``$(``."""


class Time(msgspec.Struct, frozen=True):
    """What a client's number for a time-out is in mcpd."""

    key: Literal["startup_timeout", "call_timeout"]
    unit: float
    """Seconds."""


CALL_S = {"timeout": Time("call_timeout", 1)}
CALL_MS = {"timeout": Time("call_timeout", 0.001)}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a client reads. ``key`` and ``format`` are those of its client by default."""

    path: str
    """With ``~``, ``{cfg}`` (``XDG_CONFIG_HOME``), ``{app}`` (that, on macOS Application Support)
    and ``{VAR:default}``; ``*`` for any part of a name. Relative in a project."""

    key: tuple[str, ...] | None = None
    format: Format | None = None
    is_side: bool = False
    """Whether it is only a file with servers if it has some."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table."""

    id: str
    title: str
    user: tuple[Place, ...] = ()
    """Its files of the user."""

    project: tuple[Place, ...] = ()
    """Its files in the directory of a project."""

    key: tuple[str, ...] = ("mcpServers",)
    """Where the table of servers stands."""

    format: Format = "jsonc"
    """What it reads; the laxer one where that is not known."""

    env: str = "env"
    """The key of the variables."""

    cwd: str | None = "cwd"
    """The key of the working directory; ``None`` if it has none, or ignores it."""

    variables: Variables = Variables()
    times: Mapping[str, Time] = {}
    """Its keys for time-outs."""

    stdio: str | None = None
    """Its word for a server that is a process, where an entry has a ``type``."""

    needs_type: bool = False
    """Whether an entry without a ``type`` is not read."""

    list_command: bool = False
    """Whether ``command`` is a list with the arguments in it."""

    command: str = "command"
    """The key of the program."""

    nested: str | None = None
    """The key of the table that holds the launch parameters, in its own spelling."""

    has_name: bool = False
    """Whether an entry has its name in ``name``, too."""

    wants: Mapping[str, Any] = {}
    """What a new entry has besides: switches, time-outs, filters."""

    deeper: str | None = None
    """The key of a table below ``key`` that has the servers instead, where there is one."""

    of_projects: tuple[str, str] | None = None
    """Where its own file has entries for single projects: the table of directories, and the key
    of the servers in each."""

    untyped_url_is_sse: bool = False
    """Whether an address without a ``type`` is one of HTTP+SSE."""

    first_wins: bool = False
    """Whether its files are one configuration, the most important one first."""

    switches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Lists of names that are switched off: a file, relative to its own (``""`` for the same one),
    and the key. A key that ends in ``allowed`` has the names that are on."""

    rewrites: tuple[str, ...] = ()
    """Names of its processes, if it rewrites its file while it runs."""

    is_mcpds: bool = False
    """Whether entries are read as mcpd reads them itself."""
