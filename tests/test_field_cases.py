"""The table of field cases in ``faults/README.md`` is whole, and its proofs can be tried."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest

from tests.faults import table
from tests.faults.prove import judged

GROUPS = {
    "Process lifetime": "1 2 4-9 11-15 17-19 21",
    "Starting up": "22-26 28 29 31 32 34-36 38",
    "Timeouts, hangs, crashes": "39 40 42-45 47 48 50-53 55 56",
    "stdio framing": "58 60-62 64-66 69-72 74 75",
    "Daemon singleton": "111 112 114-118 120 121 123",
    "Secrets": "139 140 142",
    "Days and weeks": "143-145 147 148",
    "systemd, launchd, shutdown": "150-155",
}
"""The cases that must each have a row: a test, or why there is none."""

REPORT = '<testsuites><testsuite><testcase name="t">{}</testcase></testsuite></testsuites>'


def numbered(ranges: str) -> list[str]:
    """Return the ids of a list of numbers and ranges of them."""
    ends = [part.split("-") for part in ranges.split()]
    numbers = itertools.chain.from_iterable(range(int(e[0]), int(e[-1]) + 1) for e in ends)
    return [f"B{number:03}" for number in numbers]


def has_test(path: Path, name: str) -> bool:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, kinds) and node.name == name for node in ast.walk(tree))


def test_every_case_of_the_groups_has_a_row() -> None:
    """
    Either a test and the lines that it fails without, or why there is none: it is about HTTP, or
    another operating system.
    """
    cells = {row.case: row.cell for row in table.rows()}
    proven = {proof.case for proof in table.proofs()}
    for group, ranges in GROUPS.items():
        for case in numbered(ranges):
            assert case in cells, f"{case} ({group}) has no row"
            cell = cells[case]
            assert "`" in cell or cell.startswith("none: ") or cell == "to come", (case, cell)
            assert case in proven or "`" not in cell, f"{case}: no test of it was seen to fail"


def test_every_test_of_the_table_is_there_and_names_its_case() -> None:
    """
    A renamed test must not leave its case without one.
    """
    for row in table.rows():
        for file, test in row.tests():
            path = table.TESTS / file
            assert row.case in path.read_text(), f"{file} does not mention {row.case}"
            assert not test or has_test(path, test), f"{file} has no {test}"


@pytest.mark.parametrize(
    ("title", "cases"),
    [("HTTP", [*range(1, 50), 141]), ("Remote servers", [*range(50, 141)])],
)
def test_every_case_of_http_has_a_row_and_its_test_is_there(title: str, cases: list[int]) -> None:
    part = table.README.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found: list[int] = []
    for names, cell in re.findall(r"^\| (H[^|]*) \| [^|]* \| (.*) \|$", part, re.MULTILINE):
        for ends in (re.findall(r"[0-9]+", each) for each in names.split(", ")):
            found += range(int(ends[0]), int(ends[-1]) + 1)
        file = ""
        for path, name in re.findall(r"`(?:([\w/]+\.py)::)?(test_\w+)`", cell):
            file = path or file
            assert has_test(table.TESTS / file, name), f"{file} has no {name}"
        assert file or cell.startswith("none: ")
    assert sorted(found) == cases


def test_every_case_has_one_row() -> None:
    """
    In the order of their numbers within a table, so that they can be found.
    """
    cases = [row.case for row in table.rows()]
    assert len(cases) == len(set(cases)) > 80
    for part in table.README.read_text().split("\n## "):
        listed = [row.case for row in table.rows(part)]
        assert listed == sorted(listed)


def test_the_lines_of_every_proof_are_where_it_says() -> None:
    """
    Once: what is there twice, or not at all, cannot be removed.
    """
    for proof in table.proofs():
        times = (table.ROOT / proof.file).read_text().count(proof.remove)
        assert proof.line and times == 1, f"{proof.case}: {times} times in {proof.file}: {proof}"
        assert proof.put != proof.remove


def test_every_proof_is_by_a_test_of_its_case() -> None:
    """
    What is proved is what the table says.
    """
    tests = {row.case: row.tests() for row in table.rows()}
    for proof in table.proofs():
        file, _, name = proof.test.removeprefix("tests/").partition("::")
        name = name.partition("[")[0]
        assert {(file, ""), (file, name)} & set(tests[proof.case]), f"{proof.case}: {proof.test}"
        assert has_test(table.TESTS / file, name), proof.test


def test_the_column_of_lines_is_that_of_the_proofs() -> None:
    page = table.README.read_text()
    new = table.rendered(page, table.proofs())
    assert new == page, "write it: python -m tests.faults.table"


@pytest.mark.parametrize(
    ("report", "outcome"),
    [
        (REPORT.format(""), "passed"),
        (REPORT.format("<skipped/>"), "skipped"),
        (REPORT.format("<error/>"), "broken"),
        (REPORT.format("<failure/><error/>"), "failed"),
        ("<testsuites><testsuite/></testsuites>", "broken"),
    ],
)
def test_a_test_that_could_not_run_proves_nothing(report: str, outcome: str) -> None:
    """
    A module that cannot be imported, or a daemon that does not come up, is no failed assertion.
    """
    assert judged(report) == outcome
