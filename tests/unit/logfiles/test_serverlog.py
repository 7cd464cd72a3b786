from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mcpd.logfiles.serverlog import LogLine, ServerLog
from mcpd.redact import Redactor

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)


def log(tmp_path: Path, **more: Any) -> ServerLog:
    return ServerLog(str(tmp_path / "logs" / "fake.log"), now=lambda: NOON, **more)


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


def stored(tmp_path: Path) -> str:
    return "".join(each.read_text() for each in sorted((tmp_path / "logs").iterdir()))


def test_a_line_has_its_time_source_and_text(tmp_path: Path):
    made = log(tmp_path)
    made.add("stderr", "listening on  stdio ")
    line = LogLine("2026-01-02T12:00:00.123Z", "stderr", "listening on  stdio ")
    assert made.tail(1) == [line]
    assert stored(tmp_path) == "2026-01-02T12:00:00.123Z stderr listening on  stdio \n"
    assert log(tmp_path).tail(1) == [line]


def test_times_are_utc(tmp_path: Path):
    east = NOON.astimezone(timezone(timedelta(hours=5)))
    made = ServerLog(str(tmp_path / "log"), now=lambda: east)
    made.add("mcpd", "started")
    assert made.tail(1)[0].time == "2026-01-02T12:00:00.123Z"


def test_a_note_of_several_lines_is_several_lines(tmp_path: Path):
    made = log(tmp_path)
    made.add("mcpd", "one\ntwo")
    assert texts(made.tail(9)) == texts(log(tmp_path).tail(9)) == ["one", "two"]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25, 49, 50, 51, 1000])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_tail_has_exactly_the_lines_asked_for(tmp_path: Path, count: int, restarted: bool):
    made = log(tmp_path, ring_lines=10, max_bytes=600, backups=9)
    for number in range(50):
        made.add("stderr", f"line {number}")
    if restarted:
        made.close()
        made = log(tmp_path, max_bytes=600, backups=9)
    assert texts(made.tail(count)) == [f"line {n}" for n in range(50)][max(0, 50 - count) :]


def test_the_tail_goes_on_over_a_restart(tmp_path: Path):
    log(tmp_path).add("stderr", "before")
    made = log(tmp_path)
    made.add("stderr", "after")
    assert texts(made.tail(5)) == ["before", "after"]


def test_the_tail_is_right_when_the_disk_failed_for_a_while(tmp_path: Path):
    """B121: memory has what the file has not, and nothing comes twice."""
    made = log(tmp_path)
    made.add("stderr", "one")
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "logs").write_text("in the way")
    made.add("stderr", "two")
    assert made.lost == 1
    assert texts(made.tail(9)) == ["one", "two"]
    (tmp_path / "logs").unlink()
    made.add("stderr", "three")
    assert texts(made.tail(9)) == ["one", "two", "[1 lines are missing here]", "three"]
    assert texts(log(tmp_path).tail(9)) == ["[1 lines are missing here]", "three"]


def test_a_long_line_is_cut(tmp_path: Path):
    made = log(tmp_path)
    made.add("stderr", "é" * 10_000)
    (line,) = made.tail(1)
    assert line.text == "é" * 4096 + " […11808 more bytes]"


def test_secrets_are_masked_in_memory_in_the_file_and_for_followers(tmp_path: Path):
    """B139."""
    made = log(tmp_path, redactor=Redactor(["sentinel-1234", "sentinel-1234-and-more", ""]))
    followed: list[LogLine] = []
    made.follow(followed.append)
    made.add("stderr", "token=sentinel-1234, key=sentinel-1234-and-more.")
    assert texts(made.tail(1)) == texts(followed) == ["token=***, key=***."]
    assert "sentinel" not in stored(tmp_path)


def test_a_secret_across_the_cut_of_a_long_line_is_masked(tmp_path: Path):
    """B139: masked first, then cut."""
    made = log(tmp_path, redactor=Redactor(["sentinel-1234"]))
    made.add("stderr", "x" * 8188 + "sentinel-1234")
    assert "sent" not in stored(tmp_path)


def test_a_secret_of_several_lines_is_masked_line_by_line(tmp_path: Path):
    """B139: a private key is printed a line at a time."""
    lines = ["-----BEGIN KEY-----", "MIIEvQIBADANBg", "Qw==", "-----END KEY-----"]
    made = log(tmp_path, redactor=Redactor(["\n".join(lines)]))
    for line in (lines[0], lines[1], lines[3]):
        made.add("stderr", line)
    assert texts(made.tail(9)) == ["***"] * 3


def test_the_short_last_line_of_a_secret_is_masked_with_the_others(tmp_path: Path):
    """
    By itself it would be too short to be looked for.
    """
    lines = ["-----BEGIN KEY-----", "MIIEvQIBADANBg", "Qw==", "-----END KEY-----"]
    made = log(tmp_path, redactor=Redactor(["\n".join(lines)]))
    assert made.add_lines("stderr", ["before", *lines, "after"]) == ["before", "***", "after"]


def test_secrets_may_change(tmp_path: Path):
    made = log(tmp_path, redactor=Redactor(["old-secret"]))
    made.redactor = Redactor(["new-secret"])
    made.add("stderr", "old-secret new-secret")
    assert texts(made.tail(1)) == ["old-secret ***"]


def test_followers_hear_each_line_until_they_leave(tmp_path: Path):
    made = log(tmp_path)
    followed: list[LogLine] = []
    leave = made.follow(followed.append)
    made.add_lines("stdout", ["one", "two"])
    leave()
    leave()
    made.add("stdout", "three")
    assert texts(followed) == ["one", "two"]


def test_a_follower_may_leave_in_the_middle(tmp_path: Path):
    made = log(tmp_path)
    followed: list[str] = []

    def once(line: LogLine) -> None:
        followed.append(line.text)
        leave()

    leave = made.follow(once)
    made.follow(lambda line: followed.append("other " + line.text))
    made.add("stderr", "one")
    assert followed == ["one", "other one"]


def test_text_that_cannot_be_encoded_is_kept_as_far_as_it_goes(tmp_path: Path):
    made = log(tmp_path)
    made.add("mcpd", "lone \ud800 surrogate")
    assert stored(tmp_path).endswith("lone ? surrogate\n")


def test_lines_that_we_did_not_write_are_shown_as_they_are(tmp_path: Path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "fake.log").write_bytes(b"scribbled by hand\n\xff\n")
    assert log(tmp_path).tail(9) == [
        LogLine("", "mcpd", "scribbled by hand"),
        LogLine("", "mcpd", "\ufffd"),
    ]


def test_a_flood_is_taken_in_quickly(tmp_path: Path):
    """B064: ten megabytes of stderr, as a server may write before its first answer."""
    made = log(tmp_path)
    for _ in range(100):
        made.add_lines("stderr", ["x" * 99] * 1000)
    assert len(made.tail(2000)) == 2000
    assert sum(each.stat().st_size for each in (tmp_path / "logs").iterdir()) <= 20 << 20


def test_trouble_is_told_once_and_its_end_with_what_is_missing(tmp_path: Path):
    """
    B121: a full disk costs lines; who looks for them is troubles where they are missing.
    """
    troubles: list[tuple[str | None, int]] = []
    made = log(
        tmp_path, on_trouble=lambda error, lost: troubles.append((error and error.strerror, lost))
    )
    (tmp_path / "logs").write_text("in the way")
    for number in range(3):
        made.add("stderr", f"{number}")
    assert troubles == [("Not a directory", 0)]
    (tmp_path / "logs").unlink()
    made.add("stderr", "again")
    made.add("stderr", "and again")
    assert troubles == [("Not a directory", 0), (None, 3)]
    assert texts(log(tmp_path).tail(9)) == ["[3 lines are missing here]", "again", "and again"]
    assert texts(made.tail(9)) == [
        "0",
        "1",
        "2",
        "[3 lines are missing here]",
        "again",
        "and again",
    ]
    assert texts(made.tail(2)) == ["again", "and again"]


def test_only_what_reaches_the_disk_counts_as_growth(tmp_path: Path):
    grown: list[int] = []
    made = log(tmp_path, on_growth=grown.append)
    made.add("stderr", "one")
    assert sum(grown) == len(stored(tmp_path))
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "logs").write_text("in the way")
    made.add("stderr", "two")
    assert sum(grown) == len(f"{made.tail(1)[0].time} stderr one\n")


def test_other_limits_hold_from_the_next_line_on(tmp_path: Path):
    made = log(tmp_path)
    made.limit(max_bytes=200, backups=1)
    for number in range(50):
        made.add("stderr", f"line {number}")
    sizes = [each.stat().st_size for each in (tmp_path / "logs").iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 200


def test_whether_somebody_follows_is_known(tmp_path: Path):
    made = log(tmp_path)
    assert not made.is_followed
    leave = made.follow(lambda line: None)
    assert made.is_followed
    leave()
    assert not made.is_followed
