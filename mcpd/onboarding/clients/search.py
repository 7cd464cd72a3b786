"""Finds the files of the clients on this machine, and reads the servers in them."""

from __future__ import annotations

import glob
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mcpd import paths
from mcpd.config.files import trust
from mcpd.config.names import name_fault
from mcpd.editing.file import Format
from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath
from mcpd.onboarding.clients import reading
from mcpd.onboarding.clients.client import Client, Place
from mcpd.onboarding.clients.entries import Found, is_server, read
from mcpd.onboarding.clients.table import CLIENTS, MCPD

SIZE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes; the history of Claude Code is in its file too."""

Scope = Literal["user", "project", "local"]

_VARIABLE: Final = re.compile(r"\{(\w+)(?::((?:[^{}]|\{\w+\})*))?\}")


class Input(msgspec.Struct, frozen=True):
    """A question of VS Code."""

    about: str
    is_password: bool


class ClientFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a client, or the part of it that belongs to one project."""

    client: Client
    path: str
    """Absolute."""

    scope: Scope
    format: Format
    key: KeyPath
    """Where its servers stand."""

    project: str | None = None
    """The directory that it belongs to, unless ``scope`` is ``user``."""

    error: ConfigError | None = None
    """Why it cannot be read; ``line`` is in its details."""

    others_can_read: bool = False
    inputs: dict[str, Input] = {}
    """What VS Code asks its user for, by ``${input:ID}``."""

    servers: tuple[Found, ...] = ()


def found(
    env: Mapping[str, str] = os.environ,
    *,
    projects: Iterable[str] = (),
    platform: str = sys.platform,
) -> list[ClientFile]:
    """Return the files of all clients, in the order of the table.

    ``projects`` are directories; those that Claude Code's own file names are added to them.
    """
    by_client = {client.id: users(client, env, platform=platform) for client in CLIENTS}
    directories = dict.fromkeys(map(os.path.abspath, projects))
    known: set[str] = set()
    for files in by_client.values():
        known |= {os.path.realpath(each.path) for each in files}
        directories |= dict.fromkeys(each.project for each in files if each.project is not None)
    for directory in directories:
        for client, place, path in _of_project(directory):
            if os.path.realpath(path) not in known:
                known.add(os.path.realpath(path))
                by_client[client.id] += _read(client, place, path, "project", directory)
    every = [each for files in by_client.values() for each in files]
    return [each for each in every if each.servers or each.scope != "local"]


def here(directory: str) -> list[str]:
    """Return a directory and its parents."""
    above = [os.path.abspath(directory)]
    while os.path.dirname(above[-1]) != above[-1]:
        above.append(os.path.dirname(above[-1]))
    return above


def users(
    client: Client, env: Mapping[str, str] = os.environ, *, platform: str = sys.platform
) -> list[ClientFile]:
    """Return the files of the user that a client has."""
    files: list[ClientFile] = []
    names: dict[str, str] = {}
    known: set[str] = set()
    for place in client.user:
        for path in _matching(expanded(place.path, env, platform)):
            if os.path.realpath(path) in known:
                continue
            known.add(os.path.realpath(path))
            for each in _read(client, place, path, "user", None):
                file = each
                if client.first_wins:
                    file = _without_shadowed(each, names)
                is_side = place.is_side or (client.first_wins and bool(names))
                if file.servers or file.error is not None or not is_side:
                    files.append(file)
                for server in file.servers:
                    names.setdefault(server.name, path)
    return files


def at(path: str, env: Mapping[str, str] = os.environ) -> list[ClientFile]:
    """Return what is in the file ``path``, which may be that of a client, of a project or of none.

    Raises ``ConfigError`` if there is no such file.
    """
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise ConfigError(f"{path}: there is no such file")
    real = os.path.realpath(path)
    for client in CLIENTS:
        for place in client.user:
            for each in _matching(expanded(place.path, env, sys.platform)):
                if os.path.realpath(each) == real:
                    return _read(client, place, path, "user", None)
    for client in CLIENTS:
        for place in client.project:
            parts = place.path.split("/")
            if "*" not in place.path and path.split("/")[-len(parts) :] == parts:
                directory = "/".join(path.split("/")[: -len(parts)]) or "/"
                return _read(client, place, path, "project", directory)
    return [_of_no_client(path)]


def expanded(template: str, env: Mapping[str, str], platform: str) -> str:
    """Return the path of a ``Place``; empty if it names a variable that is not set."""
    home = paths.home(env)
    config = env.get("XDG_CONFIG_HOME", "")
    config = config if config.startswith("/") else f"{home}/.config"
    known = {
        "cfg": config,
        "app": f"{home}/Library/Application Support" if platform == "darwin" else config,
    }

    def value(match: re.Match[str]) -> str:
        if match[1] in known:
            return known[match[1]]
        return env.get(match[1]) or _VARIABLE.sub(value, match[2] or "")

    path = _VARIABLE.sub(value, template)
    if path.startswith("~"):
        path = home + path[1:]
    return path if path.startswith("/") and path.count("/") > 1 else ""


def _matching(path: str) -> list[str]:
    if not path:
        return []
    if "*" in path:
        return sorted(glob.glob(path))
    return [path] if os.path.isfile(path) else []


def _of_project(directory: str) -> Iterator[tuple[Client, Place, str]]:
    try:
        names = set(os.listdir(directory))
    except OSError:
        return
    for client in CLIENTS:
        for place in client.project:
            if place.path.partition("/")[0] in names:
                for path in _matching(os.path.join(directory, place.path)):
                    yield client, place, path


def _read(
    client: Client, place: Place, path: str, scope: Scope, directory: str | None
) -> list[ClientFile]:
    key = place.key or client.key
    file = ClientFile(
        client=client,
        path=path,
        scope=scope,
        format=place.format or client.format,
        key=key,
        project=directory,
    )
    try:
        raw = trust.read(path, limit=SIZE_LIMIT)
        content = None if raw is None else reading.data(raw, file.format)
        mode = os.stat(path).st_mode
    except ConfigError as error:
        return [msgspec.structs.replace(file, error=error)]
    except OSError as error:
        why = ConfigError(f"cannot be read: {error.strerror}")
        return [msgspec.structs.replace(file, error=why)]
    file = msgspec.structs.replace(file, others_can_read=bool(mode & (stat.S_IRGRP | stat.S_IROTH)))
    return parts(file, content)


def parts(file: ClientFile, content: Any) -> list[ClientFile]:
    """Return a file with its servers, and those that it has for single projects."""
    client = file.client
    off = _switched_off(client, file.path, content)
    if inputs := _inputs(content):
        file = msgspec.structs.replace(file, inputs=inputs)
    if client.deeper and isinstance(_value(content, (*file.key, client.deeper)), dict):
        file = msgspec.structs.replace(file, key=(*file.key, client.deeper))
    files = [_with_servers(file, content, off)]
    if client.of_projects is None or file.scope != "user":
        return files
    table, inner = client.of_projects
    projects = _value(content, (table,))
    for directory in projects if isinstance(projects, dict) else ():
        key = (table, directory, inner)
        own = msgspec.structs.replace(file, scope="local", key=key, project=directory)
        files.append(_with_servers(own, content, off))
    return files


def _with_servers(file: ClientFile, content: Any, off: Sequence[Any]) -> ClientFile:
    table = _value(content, file.key)
    if isinstance(table, list):
        elements = [
            (str(each.get("name") or ""), (*file.key, n), each)
            for n, each in enumerate(table)
            if isinstance(each, dict)
        ]
    elif isinstance(table, dict):
        elements = [(name, (*file.key, name), each) for name, each in table.items()]
    else:
        return file
    names = [name for name, _, _ in elements]
    twice = {name for name in names if names.count(name) > 1} | _repeated(content, file.key)
    servers = []
    for name, path, each in elements:
        if not is_server(each):
            continue
        found_ = read(
            name,
            each,
            file.client,
            path,
            directory=file.project,
            is_off=any(_is_off(name, switch) for switch in off),
        )
        why = "this name stands twice in the file" if name in twice or "" in twice else None
        if why := why or name_fault(name):
            found_ = msgspec.structs.replace(found_, why_not=why, entry={}, connects=None)
        servers.append(found_)
    return msgspec.structs.replace(file, servers=tuple(servers))


def _repeated(content: Any, key: KeyPath) -> frozenset[str]:
    """Return the names that stand twice in a table; an empty one if that table does itself."""
    for part in key:
        if part in getattr(content, "repeated", ()):
            return frozenset({""})
        content = content[part]
    return getattr(content, "repeated", frozenset())


def _value(content: Any, key: KeyPath) -> Any:
    for part in key:
        content = content.get(part) if isinstance(content, dict) else None
    return content


def _inputs(content: Any) -> dict[str, Input]:
    inputs = _value(content, ("inputs",))
    return {
        f"${{input:{each['id']}}}": Input(
            str(each.get("description") or each["id"]), each.get("password") is True
        )
        for each in (inputs if isinstance(inputs, list) else ())
        if isinstance(each, dict) and isinstance(each.get("id"), str)
    }


def answered(file: ClientFile, answers: Mapping[str, str]) -> ClientFile:
    """Return a file whose entries that lack only ``answers`` can be moved."""
    servers = tuple(
        read(
            each.name,
            each.content,
            file.client,
            each.path,
            directory=file.project,
            answers=answers,
        )
        if each.why_not is not None and any(asked in each.why_not for asked in answers)
        else each
        for each in file.servers
    )
    return msgspec.structs.replace(file, servers=servers)


def _switched_off(client: Client, path: str, content: Any) -> list[tuple[bool, list[Any]]]:
    """Return the lists of names that are off, or, with ``True``, of those that are on."""
    lists = []
    for beside, key in client.switches:
        data = content
        if beside:
            try:
                raw = trust.read(os.path.join(os.path.dirname(path), beside), limit=SIZE_LIMIT)
                data = None if raw is None else reading.data(raw, "jsonc")
            except ConfigError:
                data = None
        names = _value(data, key)
        if isinstance(names, list):
            lists.append((key[-1] == "allowed", names))
    return lists


def _is_off(name: str, switch: tuple[bool, list[Any]]) -> bool:
    is_allowed, names = switch
    return (name not in names) if is_allowed else (name in names)


def _without_shadowed(file: ClientFile, names: Mapping[str, str]) -> ClientFile:
    """Return a file in which the servers that a more important one has are out of reach."""
    servers = tuple(
        msgspec.structs.replace(
            each,
            why_not=f"{file.client.title} does not read it: {names[each.name]} has this name too",
            is_shadowed=True,
            entry={},
            connects=None,
        )
        if each.name in names
        else each
        for each in file.servers
    )
    return msgspec.structs.replace(file, servers=servers)


def _of_no_client(path: str) -> ClientFile:
    """Read a file whose client is known by its content alone."""
    from mcpd.onboarding.clients import snippet

    file = ClientFile(client=MCPD, path=path, scope="user", format="jsonc", key=("mcpServers",))
    try:
        raw = trust.read(path, limit=SIZE_LIMIT)
        form = snippet.format_of(path)
        content = None if raw is None else reading.data(raw, form)
    except ConfigError as error:
        return msgspec.structs.replace(file, error=error)
    client, key = snippet.dialect(content)
    file = msgspec.structs.replace(file, client=client, key=key, format=form)
    return _with_servers(file, content, ())
