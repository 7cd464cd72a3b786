"""The files of a workspace that name servers, read as what nobody has vouched for."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mcpd import paths
from mcpd.config.files import trust
from mcpd.config.names import name_fault
from mcpd.config.problems import Problem
from mcpd.config.reading.findings import Findings
from mcpd.errors import ConfigError
from mcpd.formats import jsonc, toml
from mcpd.formats.document import Document, decode
from mcpd.projects.offer import Offer, digest, hash_of
from mcpd.projects.repository import home_of

OURS: Final = (".mcpd.toml", ".mcp.json")
"""Files without anything but servers."""

FILES: Final = (*OURS, ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json")
"""Of two that name the same server the first one counts."""

MOST_BYTES: Final = 128 * 1024
"""A file must be smaller: the daemon reads it while others wait."""

MOST_SERVERS: Final = 100
"""Servers of one project."""

_TABLES: Final = ("mcpServers", "servers", "mcp_servers")
_NOT_HERE: Final = ("daemon", "http", "trust", "profiles")
_POLICY: Final = frozenset({
    "approval", "trusted", "pin", "pinvolatile", "sanitise", "sanitiseresults", "rate", "ratewait",
    "trust", "alwaysallow", "autoapprove", "toolapproval", "trustedtools",
    "defaulttoolsapprovalmode",
})  # fmt: skip
"""What says how far a server is trusted is no project's to say: keys in lower case, without ``_``
and ``-``."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a workspace offer."""

    workspace: str
    directory: str
    """Its real path."""

    home: str
    """The directory that trust is remembered for; the same for all worktrees of a repository."""

    offers: dict[str, Offer] = {}
    problems: tuple[Problem, ...] = ()
    """Files that are refused or cannot be parsed, and what is ignored in others."""

    contents: dict[str, bytes | str] = {}
    """What was read of each file, or why it was not."""

    @property
    def hash(self) -> str:
        """The hash of all that it offers."""
        return hash_of([self.home, {name: offer.hash for name, offer in self.offers.items()}])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say about it."""
        return not self.offers and not self.problems


def read(workspace: str, before: Project | None = None) -> Project:
    """Read what the files of a workspace offer. Never raises for what they hold.

    Returns ``before`` if that was read of the same bytes. A file that somebody else could have
    written is refused, as is one that is a link out of the workspace. The home directory is no
    project: what stands there are the files of clients.
    """
    if not is_usable(workspace):
        return Project(workspace=workspace, directory=workspace, home=workspace)
    directory = os.path.realpath(workspace)
    if directory in ("/", os.path.realpath(paths.home())):
        return Project(workspace=workspace, directory=directory, home=directory)
    contents: dict[str, bytes | str] = {}
    for name in FILES:
        try:
            content = _content(directory, name)
        except ConfigError as error:
            contents[name] = error.message
        else:
            if content is not None:
                contents[name] = content
    home = home_of(directory) if contents else directory
    if before is not None and (before.directory, before.home, before.contents) == (
        directory,
        home,
        contents,
    ):
        return before
    offers: dict[str, Offer] = {}
    problems: list[Problem] = []
    for name, found in contents.items():
        findings = Findings(os.path.join(workspace, name), None)
        for offer in _offers(name, found, findings):
            if len(offers) < MOST_SERVERS:
                offers.setdefault(offer.name, offer)
            elif offer.name not in offers:
                why = f"ignored, as are others: a project has {MOST_SERVERS} servers at most"
                findings.error(offer.path, why, server=offer.name)
                break
        problems += findings.problems
    return Project(
        workspace=workspace,
        directory=directory,
        home=home,
        offers=dict(sorted(offers.items())),
        problems=tuple(problems),
        contents=contents,
    )


def is_usable(directory: str) -> bool:
    """Tell whether a directory can be named in messages and files: it is UTF-8, without a NUL."""
    try:
        directory.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in directory


def has_any(directory: str) -> bool:
    """Tell whether a directory has a file that may name servers."""
    return any(os.path.lexists(os.path.join(directory, name)) for name in FILES)


def _offers(name: str, content: bytes | str, findings: Findings) -> Iterator[Offer]:
    """Yield the servers of one file, and record what is wrong with it."""
    if isinstance(content, str):
        findings.error((), content)
        return
    try:
        text = decode(content)
        document = toml.parse(text) if name.endswith(".toml") else jsonc.parse(text)
    except ConfigError as error:
        findings.refusal(error)
        return
    findings.document = document
    top = document.data
    if not isinstance(top, dict):
        findings.error((), 'expected a table: { "mcpServers": { … } }')
        return
    for key in _NOT_HERE if name in OURS else ():
        if key in top:
            findings.warning((key,), "a project cannot set this: ignored")
    for key in _TABLES:
        table = top.get(key, {})
        if not isinstance(table, dict):
            findings.error((key,), "expected a table of servers, each under its name")
            continue
        for server, entry in table.items():
            if fault := name_fault(server):
                findings.error((key, server), fault)
            elif not isinstance(entry, dict):
                findings.error((key, server), "expected a table", server=server)
            else:
                yield _offer(key, server, entry, document, findings)


def _offer(
    table: str, server: str, entry: dict[str, Any], document: Document, findings: Findings
) -> Offer:
    content = {}
    for key, value in entry.items():
        if key.lower().replace("_", "").replace("-", "") in _POLICY:
            why = "a project cannot set this: ignored"
            findings.warning((table, server, key), why, server=server)
        else:
            content[key] = value
    return Offer(
        name=server,
        file=findings.file,
        path=(table, server),
        document=document,
        content=content,
        hash=digest(server, content),
    )


def _content(directory: str, name: str) -> bytes | None:
    """Return the content of a file of a project, ``None`` where there is none.

    Raises ``ConfigError`` for one that others could have written, or that is not of the project.
    """
    path = os.path.join(directory, name)
    try:
        if not os.path.lexists(path):
            return None
        target = os.path.realpath(path, strict=True)
        if not target.startswith(f"{directory}/"):
            raise ConfigError("refused: a link that leaves the project")
        for place in dict.fromkeys((*_between(directory, path), *_between(directory, target))):
            _check_directory(place, is_above=False)
        for place in _above(directory):
            _check_directory(place, is_above=True)
        if _others_write(os.stat(target)):
            raise _writable(target)
        content = trust.read(target)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    if content is not None and len(content) > MOST_BYTES:
        raise ConfigError(f"refused: expected less than {MOST_BYTES // 1024} KiB")
    return content


def _between(directory: str, path: str) -> Iterator[str]:
    """Yield the directories from that of a file up to the project's."""
    place = os.path.dirname(path)
    while place != directory:
        yield place
        place = os.path.dirname(place)
    yield directory


def _above(directory: str) -> Iterator[str]:
    while directory != "/":
        directory = os.path.dirname(directory)
        yield directory


def _check_directory(path: str, *, is_above: bool) -> None:
    """Refuse a directory in which others could put another file.

    In one above the project, such as ``/tmp``, it is enough that nobody may rename what is ours.
    """
    status = os.stat(path)
    if is_above and status.st_mode & stat.S_ISVTX:
        return
    if not is_above and status.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"refused: the directory {path} belongs to somebody else")
    if _others_write(status):
        raise _writable(path)


def _writable(path: str) -> ConfigError:
    what = f"refused: others can write to {path}, so what it says may be theirs"
    return ConfigError(f"{what}; type: chmod go-w {shlex.quote(path)}")


def _others_write(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(group: int) -> bool:
    """Tell whether a group has nobody in it but us, as many systems give each user one."""
    import grp
    import pwd

    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    alone = set(members.gr_mem) <= {user.pw_name}
    return group == user.pw_gid and members.gr_name == user.pw_name and alone
