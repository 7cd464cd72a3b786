"""How to run a server's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import msgspec

from mcpd.config.texts import secretnames, workspace
from mcpd.supervise.process import Scope
from mcpd.upstreams.run import Backend


class ProcessSpec(Backend, frozen=True, kw_only=True):
    """A server that is a process of ours. Holds secrets: never shown."""

    transport: ClassVar[str] = "stdio"

    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    """The variables of the entry."""

    base_env: Mapping[str, str]
    """The environment that it may inherit."""

    inherit: Literal["all", "minimal", "none"]
    cwd: str
    names_cwd: bool
    """Whether the entry names ``cwd``. If not, the root of a workspace takes its place."""

    scope: Scope
    is_typed: bool = False
    """Whether it is a client's command line with its environment: there is no entry to correct."""

    def with_secrets(self, secrets: Mapping[str, str]) -> Self:
        """Return it with its placeholders filled."""
        return msgspec.structs.replace(
            self,
            args=tuple(secretnames.filled(each, secrets) for each in self.args),
            env={name: secretnames.filled(value, secrets) for name, value in self.env.items()},
            secrets=(),
        )

    def in_workspace(self, root: str | None) -> ProcessSpec:
        """Return it with the root of a workspace put in, unchanged for ``None``."""
        if root is None:
            return self
        return msgspec.structs.replace(
            self,
            command=workspace.placed(self.command, root),
            args=tuple(workspace.placed(each, root) for each in self.args),
            env={name: workspace.placed(value, root) for name, value in self.env.items()},
            cwd=workspace.placed(self.cwd, root) if self.names_cwd else root,
        )
