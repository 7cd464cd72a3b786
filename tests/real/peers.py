"""The matrix's peers: which servers and clients there are, and how each is started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

HERE = Path(__file__).parent
MODERN: Final = "2026-07-28"


@dataclass(frozen=True)
class Program:
    """One peer that runs on an SDK."""

    environment: str
    """Below what `make real` makes: a virtual environment, or ``node_modules``."""
    script: Path | str
    """What it runs there."""
    mode: str | None = None
    """What a client is told about eras."""

    def command(self, real: Path) -> list[str]:
        """Return what starts it."""
        if self.environment == "node_modules":
            return [str(real / "node_modules/.bin/node"), str(self._script(real))]
        return [str(real / self.environment / "bin/python"), str(self._script(real))]

    def _script(self, real: Path) -> Path:
        return self.script if isinstance(self.script, Path) else real / self.script


def environment(real: Path) -> Json:
    """Return the variables that the peers need: Node finds the packages of npm by this one."""
    return {"NODE_PATH": str(real / "node_modules")}


def _client(environment: str, name: str, mode: str | None = None) -> Program:
    return Program(environment, HERE / "clients" / name, mode)


def _server(environment: str, name: str) -> Program:
    return Program(environment, HERE / "fixtures" / name)


CLIENTS: Final = {
    "python-1.30": _client("sdk1", "sdk1.py"),
    "python-2.3-auto": _client("servers", "sdk2.py", "auto"),
    "python-2.3-legacy": _client("servers", "sdk2.py", "legacy"),
    "python-2.3-modern": _client("servers", "sdk2.py", MODERN),
    "typescript-1.32": _client("node_modules", "typescript1.cjs"),
    "typescript-2.4-auto": _client("node_modules", "typescript2.cjs", "auto"),
    "typescript-2.4-legacy": _client("node_modules", "typescript2.cjs", "legacy"),
    "typescript-2.4-modern": _client("node_modules", "typescript2.cjs", MODERN),
}

SERVERS: Final = {
    "python-1.8.1": _server("old", "python1.py"),
    "python-1.26": _server("sdk126", "python1.py"),
    "python-1.30": _server("sdk1", "python1.py"),
    "python-2.3": _server("servers", "python2.py"),
    "typescript-1.32": _server("node_modules", "typescript1.cjs"),
    "typescript-2.4": _server("node_modules", "typescript2.cjs"),
    "everything": Program(
        "node_modules", "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    ),
}


def variables(real: Path) -> dict[str, str]:
    """Return an environment in which the peers can be started."""
    return {**os.environ, **environment(real)}
