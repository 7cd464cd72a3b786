"""Each reported fault has a test, or a reason why not."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent.parent
ROWS = [
    line.split(" | ")
    for line in Path(__file__).with_name("README.md").read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]


def test_all_are_there() -> None:
    assert [row[0].strip("| ") for row in ROWS] == [str(number) for number in range(1, 37)]


def test_each_test_exists() -> None:
    file = ""
    for row in ROWS:
        for path, name in re.findall(r"`([\w/.]*?\.py)?(?:::(test_\w+))?`", row[3]):
            file = path or file
            text = (TESTS / file).read_text()
            assert not name or f"def {name}(" in text, (row[0], file, name)
