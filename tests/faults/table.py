"""The table of field cases in ``README.md``, and the proofs in ``proofs.toml``.

``python -m tests.faults.table`` writes the column of lines anew from the proofs.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

FAULTS = Path(__file__).parent
TESTS = FAULTS.parent
ROOT = TESTS.parent
README = FAULTS / "README.md"
PROOFS = FAULTS / "proofs.toml"
ROW = re.compile(r"\| (B\d{3}) \| (.*?) \| (.*?) \|(?: (.*?) ?\|)?")
LONGEST_LINE = 70


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A test and lines of ours, by whose removal it was seen to fail."""

    case: str
    test: str
    """A node of pytest: ``tests/faults/test_weeks.py::test_…``."""

    file: str
    remove: str
    """A text that is in ``file`` exactly once."""

    put: str = ""
    """What stands there instead."""

    @property
    def line(self) -> str:
        """The first of the lines, to be recognised by."""
        lines = [line.strip() for line in self.remove.splitlines()]
        return next(line for line in lines if line)


@dataclass(frozen=True)
class Row:
    """A case: its id, what it is in a word, and the cell of its tests."""

    case: str
    word: str
    cell: str

    def tests(self) -> list[tuple[str, str]]:
        """Return the file, below ``tests``, and the name of each test; ``""`` is the whole file.

        A name without a file is in the file before it.
        """
        found, file = [], ""
        for named in re.findall(r"`([^`]+)`", self.cell):
            path, _, test = (named, "", "") if named.endswith(".py") else named.rpartition("::")
            file = path or file
            found.append((file, test))
        return found


def proofs() -> list[Proof]:
    """Return what ``proofs.toml`` says."""
    return [Proof(**entry) for entry in tomllib.loads(PROOFS.read_text())["proof"]]


def rows(text: str | None = None) -> list[Row]:
    """Return the rows of all tables of the page."""
    lines = (README.read_text() if text is None else text).splitlines()
    return [Row(*row.group(1, 2, 3)) for row in map(ROW.fullmatch, lines) if row]


def rendered(text: str, known: list[Proof]) -> str:
    """Return the page with its column of lines as the proofs have it; 3 columns stay 3."""

    def line(old: str) -> str:
        row = ROW.fullmatch(old)
        if not row or row[4] is None:
            return old
        lines = dict.fromkeys(shown(p) for p in known if p.case == row[1])
        return f"| {row[1]} | {row[2]} | {row[3]} | {'<br>'.join(lines)} |".replace("|  |", "| |")

    return "\n".join(map(line, text.splitlines())) + "\n"


def shown(proof: Proof) -> str:
    """Return how the table names the lines of a proof."""
    line = proof.line
    if len(line) > LONGEST_LINE:
        line = line[:LONGEST_LINE].rpartition(" ")[0] + " …"
    return f"{proof.file}: `{line.replace('|', chr(92) + '|')}`"


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(), proofs()))
