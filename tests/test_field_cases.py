"""The table of field cases in ``README.md`` names tests that exist and that name the case."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
ROW = re.compile(r"\| (B\d{3}) \|.*\| (.*) \|")


def rows() -> list[tuple[str, str]]:
    lines = (TESTS / "README.md").read_text().splitlines()
    return [(row[1], row[2]) for row in map(ROW.fullmatch, lines) if row]


def test_every_test_of_the_table_is_there_and_names_its_case():
    """
    A renamed test must not leave its case without one.
    """
    assert len(rows()) > 50
    for case, cell in rows():
        file = Path()
        for named in re.findall(r"`([^`]+)`", cell):
            path, _, test = (named, "", "") if named.endswith(".py") else named.rpartition("::")
            file = TESTS / path if path else file
            text = file.read_text()
            assert case in text, f"{file} does not mention {case}"
            assert not test or f"def {test}(" in text, f"{file} has no {test}"


def test_every_case_has_one_row():
    """
    In the order of their numbers, so that they can be found.
    """
    cases = [case for case, _ in rows()]
    assert cases == sorted(set(cases))
