"""Memory holds the newest lines, within bounds."""

from __future__ import annotations

from mcpd.logfiles.line import LogLine
from mcpd.logfiles.recent import RecentLines


def line(number: int) -> LogLine:
    return LogLine("", "mcpd", str(number))


def texts(lines: list[LogLine]) -> list[str]:
    return [each.text for each in lines]


def test_memory_is_bounded_by_lines_and_by_bytes():
    few = RecentLines(most_lines=3, most_bytes=100)
    for number in range(9):
        few.add(line(number), 10, is_stored=number % 2 == 0)
    assert texts(few.lines()) == ["6", "7", "8"]
    assert few.stored == 2
    few.add(line(9), 95, is_stored=False)
    assert texts(few.lines()) == ["9"]
    assert few.stored == 0


def test_lines_after_the_last_stored_one_are_unstored():
    recent = RecentLines()
    assert recent.unstored() == []
    for number, is_stored in enumerate((False, True, False, False)):
        recent.add(line(number), 1, is_stored=is_stored)
    assert texts(recent.unstored()) == ["2", "3"]


def test_a_follower_may_leave_while_it_is_called():
    recent = RecentLines()
    seen: list[LogLine] = []

    def once(each: LogLine) -> None:
        seen.append(each)
        leave()

    leave = recent.follow(once)
    assert recent.is_followed
    recent.add(line(1), 1, is_stored=True)
    recent.add(line(2), 1, is_stored=True)
    leave()
    assert texts(seen) == ["1"]
    assert not recent.is_followed
