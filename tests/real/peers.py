"""The peers of the matrix: which clients and servers there are on which SDK, and how each starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

HERE = Path(__file__).parent
LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"


@dataclass(frozen=True)
class Program:
    """A program on an SDK."""

    environment: str
    """Below what `make real` makes: a virtual environment, or ``node_modules``."""
    script: Path
    """What it runs; a path that is not absolute begins there, too."""

    def command(self, real: Path) -> list[str]:
        """Return what starts it."""
        if self.environment == "node_modules":
            return [str(real / "node_modules/.bin/node"), str(real / self.script)]
        return [str(real / self.environment / "bin/python"), str(real / self.script)]


@dataclass(frozen=True)
class Client(Program):
    """A client of the matrix."""

    mode: str = "legacy"
    """What it is told about eras: ``auto``, ``legacy`` or a modern revision."""

    @property
    def is_modern(self) -> bool:
        """Say whether it speaks as a modern client to who speaks both."""
        return self.mode != "legacy"


@dataclass(frozen=True)
class Server(Program):
    """A server of the matrix."""

    speaks: tuple[str, ...]
    """The newest revision of each of its eras, the legacy one first."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """What of the matrix it has not, and why."""
    texts_of_progress: bool = True
    """Say whether its SDK has the text of a report."""
    structured: bool = True
    """Say whether its SDK returns structured results."""
    has_levels: bool = False
    """Say whether its SDK takes a log level."""


NODE = "node_modules"

CLIENTS: Final = {
    "python-1.30": Client("sdk1", HERE / "clients/sdk1.py"),
    "python-2.3-auto": Client("servers", HERE / "clients/sdk2.py", "auto"),
    "python-2.3-legacy": Client("servers", HERE / "clients/sdk2.py", "legacy"),
    "python-2.3-modern": Client("servers", HERE / "clients/sdk2.py", MODERN),
    "typescript-1.32": Client(NODE, HERE / "clients/typescript1.cjs"),
    "typescript-2.4-auto": Client(NODE, HERE / "clients/typescript2.cjs", "auto"),
    "typescript-2.4-legacy": Client(NODE, HERE / "clients/typescript2.cjs", "legacy"),
    "typescript-2.4-modern": Client(NODE, HERE / "clients/typescript2.cjs", MODERN),
}

ONE_WAY = "one tool asks in the manner of its only era, `ask`"

SERVERS: Final = {
    "python-1.8.1": Server(
        "old",
        HERE / "fixtures/python1.py",
        ("2024-11-05",),
        lacks={
            "cancel": "up to 1.12.0, a server ends when a call that runs is cancelled",
            "ask": "the SDK has elicitation from 1.10 on",
            "ask_back": ONE_WAY,
        },
        texts_of_progress=False,
        structured=False,
    ),
    "python-1.26": Server(
        "sdk126", HERE / "fixtures/python1.py", (LEGACY,), lacks={"ask_back": ONE_WAY}
    ),
    "python-1.30": Server(
        "sdk1", HERE / "fixtures/python1.py", (LEGACY,), lacks={"ask_back": ONE_WAY}
    ),
    "python-2.3": Server("servers", HERE / "fixtures/python2.py", (LEGACY, MODERN)),
    "typescript-1.32": Server(
        NODE,
        HERE / "fixtures/typescript1.cjs",
        (LEGACY,),
        lacks={"ask_back": ONE_WAY},
        has_levels=True,
    ),
    "typescript-2.4": Server(
        NODE, HERE / "fixtures/typescript2.cjs", (LEGACY, MODERN), has_levels=True
    ),
    "everything": Server(
        NODE,
        Path("node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
        (LEGACY,),
        lacks={
            "ask_back": ONE_WAY,
            "log": "its messages come when they like",
            "change": "no tool changes its list",
        },
    ),
}


def environment(real: Path) -> dict[str, str]:
    """Return the variable that the peers need: by it Node finds the packages of npm."""
    return {"NODE_PATH": str(real / "node_modules")}


def variables(real: Path) -> dict[str, str]:
    """Return an environment in which the peers can be started."""
    return {**os.environ, **environment(real)}
