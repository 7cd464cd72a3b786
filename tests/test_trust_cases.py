"""The tables of ``trust.md`` are whole, and every test that they name is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_field_cases import has_test

HERE = Path(__file__).parent
CASES = [f"T{number:02}" for number in range(1, 61)]
ROW = re.compile(r"\| (T\d\d) \| .*? \| (.*) \|")


def rows() -> dict[str, str]:
    found = (ROW.fullmatch(line) for line in (HERE / "trust.md").read_text().splitlines())
    return {row[1]: row[2] for row in found if row is not None}


def named(cell: str) -> Iterator[tuple[Path, str | None]]:
    """Yield each test of a cell with its file; a transcript is a file alone."""
    file = HERE
    for word in re.findall(r"`([^` ]+)`", cell):
        if word.startswith("test_"):
            yield file, word
        else:
            file = HERE / word
            if file.suffix != ".py":
                yield file, None


def test_every_case_has_its_tests() -> None:
    cells = rows()
    assert list(cells) == CASES
    assert all([*named(cell)] for cell in cells.values())


def test_every_test_of_the_tables_is_there() -> None:
    for case, cell in rows().items():
        for file, test in named(cell):
            assert file.exists(), (case, file)
            assert test is None or has_test(file, test), (case, file, test)
