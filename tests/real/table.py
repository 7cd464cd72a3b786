"""The matrix as the table of docs/revisions.md; run as a program, it prints it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.real.cells import Cell
from tests.real.matrix import DIRECT_CANNOT, USED, cannot
from tests.real.peers import CLIENTS, MODERN, SERVERS

NOTES: Final = {
    "a": "no cancellation: a server on this SDK (up to 1.12.0) ends when a call that runs is cancelled",
    "b": "no question: this SDK has elicitation from 1.10 on",
    "c": "no question from the middle of a tool (`ctx.elicit`, `elicitInput`): in its modern era, the "
    "SDK has questions as results alone (`Resolve`, `inputRequired`), and those work",
    "d": "no log messages: the SDK names no `logging`, so a legacy client cannot ask for them",
    "e": "log messages from `info` on, for the same reason",
    "f": "the reference server has no tool for log messages and for changes of its list",
    "g": "the server dies of `server/discover`, and the client does not start another",
    "h": "no revision in common",
}


def table(bridged: bool) -> str:
    """Return one table: directly, or through mcpd."""
    used = USED if bridged else {name: USED[name] for name in SERVERS}
    rows = [
        f"| {'mcpd' if bridged else 'directly'} | " + " | ".join(map(_shown, used)) + " |",
        "|---|" + "---|" * len(used),
    ]
    for name in CLIENTS:
        cells = [_cell(name, entry, bridged) for entry in used]
        rows.append(f"| {_shown(name)} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(client: str, entry: str, bridged: bool) -> str:
    server, modern = USED[entry]
    if not bridged:
        if (client, server) in DIRECT_CANNOT:
            return "no, g" if CLIENTS[client].mode == "auto" else "no, h"
        modern = CLIENTS[client].is_modern and MODERN in SERVERS[server].speaks
    cell = Cell(client, CLIENTS[client], server, SERVERS[server], modern, bridged)
    notes = [letter for letter, applies in APPLIES.items() if applies(cell)]
    return "yes, but " + ", ".join(notes) if notes else "yes"


APPLIES: Final[dict[str, Callable[[Cell], bool]]] = {
    "a": lambda cell: "cancel" in cell.server.lacks,
    "b": lambda cell: "ask" in cell.server.lacks,
    "c": lambda cell: bool(cannot(cell.server_name, cell.modern)),
    "d": lambda cell: "log" not in cell.server.lacks and not cell.messages(),
    "e": lambda cell: "log" not in cell.server.lacks and len(cell.messages()) == 1,
    "f": lambda cell: cell.server_name == "everything",
}


def _shown(name: str) -> str:
    """Return a name as people read it."""
    given = {"python": "Python", "typescript": "TypeScript", "everything": "server-everything"}
    first, _, rest = name.partition("-")
    return f"{given[first]} {rest.replace('-', ', ')}".strip()


def whole() -> str:
    """Return both tables and their notes."""
    notes = "\n".join(f"- {letter}: {note}" for letter, note in NOTES.items())
    return "\n\n".join((table(bridged=True), table(bridged=False), notes)) + "\n"


if __name__ == "__main__":
    print(whole(), end="")
