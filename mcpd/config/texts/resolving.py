"""Resolves the texts of an entry, and records each text that cannot be resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from mcpd.config.reading.findings import Findings
from mcpd.config.texts import secretnames, workspace
from mcpd.config.texts.interpolate import Piece, Unresolved, joined, resolve
from mcpd.formats.document import KeyPath


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of the user's login shell, for variables that the daemon lacks."""

    variables: Mapping[str, str] = {}
    told: str = ""
    """What a message about a variable that is not set says of the shell."""


_NO_SECRET_HERE = (
    "a secret of the keyring can stand in env, args, headers and auth (not in client_metadata_url "
    "and authorize_params, which the browser shows), and nowhere else"
)

NO_LOGIN = Login()
"""No login shell, or none that is asked."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The environment and directories with which an entry is resolved."""

    env: Mapping[str, str]
    """The values of variables."""

    cwd: str
    """The absolute directory of servers without ``cwd``."""

    since: str | None = None
    """Since when the daemon has had ``env``, for messages; ``None``: it is this command's own."""

    login: Login | None = NO_LOGIN
    """What the login shell has; ``None`` if it was not asked yet."""

    literal: bool = False
    """Whether texts are used as they are, because a shell has expanded them already."""

    workspace: str | None = None
    """The workspace, where the entry is of its project and so of no other."""

    is_ad_hoc: bool = False
    """Whether the entry comes from a client; its ``cwd`` is then relative to the client's."""


def remedy_of_unset(variable: str) -> str:
    """Return the commands that add a missing variable to the daemon's environment."""
    return f"type `export {variable}=…`, then `mcpctl restart --daemon`"


class Resolving:
    """The texts of one entry. A fault of a disabled one is a warning."""

    def __init__(
        self,
        path: KeyPath,
        name: str,
        findings: Findings,
        around: Surroundings,
        *,
        is_enabled: bool,
    ) -> None:
        self._path = path
        self._name = name
        self._findings = findings
        self._around = around
        self._is_enabled = is_enabled
        self.is_whole = True
        """Whether nothing was wrong so far."""
        self.unset: str | None = None
        """The variable that is not set, if that was the first fault."""
        self.secret_names: set[str] = set()
        """The names of the secrets in its texts."""
        self.files: list[str] = []
        """The absolute paths of the other files that the entry names."""

    def resolve(
        self, key: KeyPath, template: str, *, takes_secrets: bool = False
    ) -> tuple[Piece, ...]:
        """Return a resolved text; one that cannot be resolved, unchanged (then recorded).

        ``takes_secrets`` allows names of secrets in it.
        """
        pieces = self.resolved(key, template, takes_secrets=takes_secrets)
        return (Piece(template),) if pieces is None else pieces

    def resolved(
        self, key: KeyPath, template: str, *, takes_secrets: bool = False
    ) -> tuple[Piece, ...] | None:
        """Return a resolved text, or ``None`` if it cannot be resolved (then recorded)."""
        if self._around.literal:
            return (Piece(template),) if template else ()
        try:
            pieces = resolve(template, self._around.env)
        except Unresolved as wrong:
            hint = "" if wrong.variable is None else f". {self._hint(wrong.variable)}"
            if self.is_whole:  # the first error is the one that is reported
                self.unset = wrong.variable
            self.fault(key, f"{wrong}{hint}")
            return None
        if any(secretnames.is_named_in(piece.text) for piece in pieces):
            if not takes_secrets:
                self.fault(key, _NO_SECRET_HERE)
                return None
            self.secret_names.update(secretnames.names_in(piece.text for piece in pieces))
        root = self._around.workspace
        if root is None:
            return pieces
        return tuple(Piece(workspace.placed(each.text, root), each.variable) for each in pieces)

    def file(self, key: KeyPath, template: str) -> str | None:
        """Return the absolute path of a file that an entry names, ``None`` for none.

        It is relative to the directory of the configuration file. A file that depends on the
        workspace is a fault.
        """
        pieces = self.resolved(key, template) if template else None
        if pieces is None:
            return None
        path = joined(pieces)
        if workspace.is_named_in(path):
            what = "a workspace's own file is not read: it would say how programs are started"
            self.fault(key, f"expected a file that is the same everywhere; {what}")
            return None
        file = self._findings.file
        directory = os.path.dirname(file) if file else self._around.cwd
        found = os.path.join(directory, path)
        self.files.append(found)
        return found

    def warn(self, key: KeyPath, message: str) -> None:
        """Record a warning about a key of the entry."""
        self._findings.warning((*self._path, *key), message, server=self._name)

    def fault(self, key: KeyPath, message: str) -> None:
        """Record what makes the entry unusable."""
        self.is_whole = False
        record = self._findings.error if self._is_enabled else self._findings.warning
        record((*self._path, *key), message, server=self._name)

    def _hint(self, variable: str) -> str:
        since = self._around.since
        if since is None:
            whose = "What counts is the environment that mcpd is started with"
        else:
            whose = f"What counts is the daemon's environment, as it has been since {since}"
        if self._around.login is not None:
            whose += self._around.login.told
        return f"{whose}: {remedy_of_unset(variable)}"
