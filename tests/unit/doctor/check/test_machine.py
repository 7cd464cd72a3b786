"""What is said of the machine, from what was found."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.config.schema import DaemonConfig
from mcpd.doctor.check.machine import check
from mcpd.doctor.facts import Daemon, Disk, Logs, Machine
from mcpd.doctor.finding import Finding

MIB = 1 << 20


def findings(
    daemon: Daemon | None = None, watch: bool = True, **machine: Any
) -> dict[str, Finding]:
    found = Machine(python="3.11.7", state_dir="/s", **machine)
    settings = DaemonConfig(watch=watch, log_max_bytes=MIB, log_backups=3, logs_max_bytes=20 * MIB)
    return {each.id: each for each in check(found, daemon, settings)}


@pytest.mark.parametrize(
    ("disk", "ident", "severity"),
    [
        ({"free_bytes": 500 * MIB, "free_files": 10_000}, "disk", "ok"),
        ({"free_bytes": 500 * MIB}, "disk", "ok"),
        ({"free_bytes": 50 * MIB}, "disk_low", "warning"),
        ({"free_bytes": 0}, "disk_full", "error"),
        ({"free_bytes": 500 * MIB, "free_files": 3}, "disk_low", "warning"),
        ({"is_writable": False, "reason": "x"}, "state_not_writable", "error"),
    ],
)
def test_disks(disk: dict[str, Any], ident: str, severity: str) -> None:
    """
    B121: what is full is told by its name, before something else fails by it.
    """
    found = findings(disks=(Disk(what="state", path="/s", **disk),))
    assert found[ident].severity == severity and "/s" in found[ident].message


def test_a_state_directory_that_a_daemon_refuses() -> None:
    found = findings(refusal="others can write in /s", remedy="chmod go-w /s")["state_exposed"]
    assert (found.severity, found.remedy) == ("error", "chmod go-w /s")
    assert found.message == "no daemon starts: others can write in /s"


def test_a_log_beyond_its_cap() -> None:
    """
    B144: somebody else, or an older setting, has made it so large.
    """
    sizes = {"/s/mcpd.log": 4 * MIB, "/s/logs/a.log": 9 * MIB}
    found = findings(logs=Logs(directory="/s", sizes=sizes))
    assert found["log_large"].message.startswith("/s/logs/a.log and its older parts have 9 MiB")
    assert found["logs"].message == "2 logs in /s take 13 MiB"
    assert "logs_large" not in found
    many = {f"/s/logs/{name}.log": 4 * MIB for name in "abcdef"}
    assert "24 MiB" in findings(logs=Logs(directory="/s", sizes=many))["logs_large"].message
    assert "log_large" not in findings(logs=Logs(directory="/s", sizes={"/s/mcpd.log": 4 * MIB}))


def test_watches_that_are_used_up_matter_only_where_files_are_watched() -> None:
    assert findings(inotify="no watch is left")["watches_exhausted"].severity == "note"
    assert "watches_exhausted" not in findings(inotify="no watch is left", watch=False)


@pytest.mark.parametrize(
    ("nofile", "used", "ident"),
    [
        ((20_000, 20_000), 50, "descriptors"),
        ((20_000, -1), None, "descriptors"),
        ((-1, -1), 50, "descriptors"),
        ((256, 4096), 50, "descriptors_few"),
        ((20_000, 20_000), 17_000, "descriptors_used_up"),
    ],
)
def test_limits_are_told_with_what_is_in_use(
    nofile: tuple[int, int], used: int | None, ident: str
) -> None:
    """
    B143, B155: a service manager's default may be low, and nobody sees it until it is reached.
    """
    found = findings(Daemon(pid=1, nofile=nofile, open_fds=used))
    assert ident in found
    assert str(nofile[0]) in found[ident].message
    assert found[ident].severity == ("ok" if ident == "descriptors" else "warning")


def test_where_the_system_tells_no_limits_nothing_is_said() -> None:
    assert set(findings(Daemon(pid=1))) == {"python"}
