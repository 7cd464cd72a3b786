"""Finds, reads and merges the configuration files, and collects their problems."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from mcpd import paths
from mcpd.config import tables
from mcpd.config.entry import ServerEntry, build, name_fault
from mcpd.config.files import jsonc, toml, trust
from mcpd.config.files.document import Document, decode
from mcpd.config.findings import Findings, Table
from mcpd.config.problems import Problem
from mcpd.config.resolving import Surroundings
from mcpd.config.schema import DaemonConfig, HttpConfig, TrustConfig
from mcpd.errors import ConfigError

SYSTEM_DIRECTORY = "/etc/mcpd"
FILE_NAMES = ("mcp.json", "config.toml")
"""In one directory the entries of the later one win."""

SERVER_TABLES = ("mcpServers", "servers", "mcp_servers")
_TOP = (*SERVER_TABLES, "daemon", "http", "trust")
_ENDINGS = {".json": jsonc.parse, ".jsonc": jsonc.parse, ".toml": toml.parse}


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that is replaced by a later one with the same name."""

    name: str
    file: str
    line: int | None
    by_file: str
    by_line: int | None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The merged configuration.

    ``entries`` is in the order of first appearance; new names of later files come last. ``files``
    are all candidates, the least important first, and ``found`` those that exist. ``broken`` says
    that a file could not be read or parsed: then a working configuration must be kept.
    """

    daemon: DaemonConfig = DaemonConfig()
    http: HttpConfig = HttpConfig()
    trust: TrustConfig = TrustConfig()
    entries: dict[str, ServerEntry] = {}
    problems: tuple[Problem, ...] = ()
    files: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    named_files: frozenset[str] = frozenset()
    """The files that entries name (variables, certificates, keys), whether they exist or not."""

    broken: bool = False

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that are errors."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def candidates(
    explicit: str | None, env: Mapping[str, str], *, system: str = SYSTEM_DIRECTORY
) -> tuple[str, ...]:
    """Return the absolute paths of the configuration files, the least important first.

    ``explicit`` is ``--config``. Without it and without ``MCPD_CONFIG``, these are the files of the
    system and of the user.
    """
    if alone := explicit or env.get("MCPD_CONFIG"):
        return (os.path.abspath(alone),)
    directories = (system, paths.config_home(env))
    return tuple(os.path.join(place, name) for place in directories for name in FILE_NAMES)


def load(
    explicit: str | None,
    env: Mapping[str, str],
    *,
    since: str | None = None,
    system: str = SYSTEM_DIRECTORY,
) -> Loaded:
    """Read, merge and check the configuration. Never raises for the content of files.

    Variables are resolved from ``env``; ``since``, in error messages, says since when the daemon
    has had that environment. Blocks while it reads: a file near the size limit takes seconds.
    """
    merge = _Merge(Surroundings(env=env, cwd=paths.home(env), since=since))
    must_exist = bool(explicit or env.get("MCPD_CONFIG"))
    for file in candidates(explicit, env, system=system):
        merge.add(file, must_exist=must_exist)
    return merge.result()


class _Merge:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._entries: dict[str, ServerEntry] = {}
        self._files: list[str] = []
        self._tables: dict[str, list[Table]] = {"daemon": [], "http": [], "trust": []}
        self._findings: list[Findings] = []
        self._found: list[str] = []
        self._replaced: list[Replaced] = []
        self._is_broken = False

    def add(self, file: str, *, must_exist: bool) -> None:
        findings = Findings(file, None)
        self._files.append(file)
        self._findings.append(findings)
        try:
            document = _read(file, must_exist=must_exist)
        except ConfigError as error:
            self._is_broken = True
            if os.path.lexists(file):
                self._found.append(file)
            findings.refusal(error)
            return
        if document is None:
            if os.path.islink(file):
                findings.warning((), "a link to nothing")
            return
        self._found.append(file)
        findings.document = document
        self._take(document, findings)

    def result(self) -> Loaded:
        return Loaded(
            # the findings of these three are among the problems below
            daemon=tables.daemon(self._tables["daemon"]),
            http=tables.http(self._tables["http"]),
            trust=tables.trust(self._tables["trust"]),
            entries=self._entries,
            problems=self._problems(),
            files=tuple(self._files),
            found=tuple(self._found),
            replaced=tuple(self._replaced),
            named_files=frozenset(
                file for entry in self._entries.values() for file in entry.named_files
            ),
            broken=self._is_broken,
        )

    def _problems(self) -> tuple[Problem, ...]:
        """Return the problems by file and line, without those of replaced entries."""
        found = [problem for each in self._findings for problem in each.problems]
        found += [problem for entry in self._entries.values() for problem in entry.problems]
        found.sort(key=lambda problem: (self._files.index(problem.file), problem.line or 0))
        return tuple(found)

    def _take(self, document: Document, findings: Findings) -> None:
        top = document.data
        if not isinstance(top, dict):
            self._is_broken = True
            findings.error((), 'expected a table: { "mcpServers": { … } }')
            return
        for path in document.repeated:
            findings.warning(path, "written twice in this table; the last one counts")
        whole = Table(top, (), findings, None)
        whole.warn_of_unknown((*_TOP, "$schema"))
        for key, read in self._tables.items():
            if isinstance(top.get(key, {}), dict):
                read.append(Table(top.get(key, {}), (key,), findings, None))
            else:
                whole.error(key, "expected a table")
        for spelling in [key for key in top if key in SERVER_TABLES]:
            if isinstance(top[spelling], dict):
                for name, content in top[spelling].items():
                    self._put(spelling, name, content, findings)
            else:
                whole.error(spelling, "expected a table of servers, each under its name")

    def _put(self, spelling: str, name: str, content: object, findings: Findings) -> None:
        if fault := name_fault(name):
            findings.error((spelling, name), fault)
            return
        own = Findings(findings.file, findings.document)
        entry = build(content, (spelling, name), name, own, self._around)
        if earlier := self._entries.get(name):
            self._replaced.append(
                Replaced(
                    name=name,
                    file=earlier.file,
                    line=earlier.line,
                    by_file=entry.file,
                    by_line=entry.line,
                )
            )
        self._entries[name] = entry  # a name keeps the position of its first appearance


def _read(file: str, *, must_exist: bool) -> Document | None:
    ending = os.path.splitext(file)[1].lower()
    if ending not in _ENDINGS:
        raise ConfigError("expected a file whose name ends in .json or .toml")
    content = trust.read(file)
    if content is None:
        if must_exist:
            raise ConfigError("there is no such file")
        return None
    return _ENDINGS[ending](decode(content))
