"""Finds, reads and merges the configuration files, and collects their problems."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import msgspec

from mcpd import paths
from mcpd.config.entry import ServerEntry, build
from mcpd.config.files import trust
from mcpd.config.files.candidates import SERVER_TABLES, SYSTEM_DIRECTORY, candidates
from mcpd.config.names import name_fault
from mcpd.config.policy import ProfileConfig, TrustConfig
from mcpd.config.problems import Problem
from mcpd.config.reading import policy_table, tables
from mcpd.config.reading.findings import Findings, Table
from mcpd.config.schema import DaemonConfig, HttpConfig
from mcpd.config.texts.resolving import NO_LOGIN, Login, Surroundings
from mcpd.errors import ConfigError
from mcpd.formats import jsonc, toml
from mcpd.formats.document import Document, KeyPath, decode

_TOP = (*SERVER_TABLES, "daemon", "http", "trust", "profiles")
_ENDINGS: Mapping[str, Callable[[str], Document]] = {
    ".json": jsonc.parse,
    ".jsonc": jsonc.parse,
    ".toml": toml.parse,
}


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
    profiles: dict[str, ProfileConfig] = {}
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


def load(
    explicit: str | None,
    env: Mapping[str, str],
    *,
    since: str | None = None,
    login: Login | None = NO_LOGIN,
    system: str = SYSTEM_DIRECTORY,
) -> Loaded:
    """Read, merge and check the configuration. Never raises for the content of files.

    Variables are resolved from ``env``, and those that it lacks from ``login``, unless
    ``shell_env = false``; ``None``: the login shell was not asked yet, and entries may wait for it.
    ``since``, in error messages, says since when the daemon has had ``env``. Blocks while it reads:
    a file near the size limit takes seconds.
    """
    merge = _Merge(env, since, login)
    must_exist = bool(explicit or env.get("MCPD_CONFIG"))
    for file in candidates(explicit, env, system=system):
        merge.add(file, must_exist=must_exist)
    return merge.result()


class _Merge:
    def __init__(self, env: Mapping[str, str], since: str | None, login: Login | None) -> None:
        self._env = env
        self._since = since
        self._login = login
        self._written: list[tuple[KeyPath, str, object, Findings]] = []
        """Path, name and content of each entry, which are built once all settings are known."""
        self._entries: dict[str, ServerEntry] = {}
        self._files: list[str] = []
        self._tables: dict[str, list[Table]] = {
            key: [] for key in ("daemon", "http", "trust", "profiles")
        }
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
        # the findings of these four are among the problems below
        daemon = tables.daemon(self._tables["daemon"])
        self._build(self._around(daemon))
        return Loaded(
            daemon=daemon,
            http=tables.http(self._tables["http"]),
            trust=policy_table.trust(self._tables["trust"]),
            profiles=policy_table.profiles(self._tables["profiles"]),
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
        self._written.append(((spelling, name), name, content, own))

    def _around(self, daemon: DaemonConfig) -> Surroundings:
        login = self._login if daemon.shell_env else NO_LOGIN
        env = self._env if login is None else {**login.variables, **self._env}
        return Surroundings(env=env, cwd=paths.home(self._env), since=self._since, login=login)

    def _build(self, around: Surroundings) -> None:
        for path, name, content, findings in self._written:
            entry = build(content, path, name, findings, around)
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
