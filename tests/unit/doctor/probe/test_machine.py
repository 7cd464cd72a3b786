"""Disks, logs and units as they are found."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mcpd.doctor.probe import machine


def test_a_directory_that_will_be_made_is_looked_at_above(tmp_path: Path) -> None:
    found = machine.disk("state", str(tmp_path / "a" / "b"))
    assert found.is_writable and found.free_bytes
    (tmp_path / "a").touch()
    assert not machine.disk("state", str(tmp_path / "a" / "b")).is_writable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_the_right_to_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert machine.disk("state", str(tmp_path)).reason == f"{tmp_path} is not writable"
    tmp_path.chmod(0o700)


def test_what_a_daemon_would_refuse_as_its_state_directory(tmp_path: Path) -> None:
    """
    Looking changes nothing, also where a daemon would mend the mode by itself.
    """
    state = tmp_path / "state"
    assert machine.refusal_of(str(state), own=False) is None
    state.mkdir()
    (state / "a").touch()
    state.chmod(0o777)
    assert machine.refusal_of(str(state), own=True) is None
    refusal = machine.refusal_of(str(state), own=False)
    assert refusal is not None and "mode 0777" in refusal.message
    assert "MCPD_STATE_DIR" in str(refusal.hint)
    assert state.stat().st_mode & 0o777 == 0o777
    (tmp_path / "link").symlink_to(state)
    assert machine.refusal_of(str(tmp_path / "link"), own=True) is not None
    assert machine.refusal_of(str(state / "a"), own=False) is None, "disk() tells that"


def test_logs_count_with_their_older_parts(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name, size in {"mcpd.log": 5, "logs/a.log": 1, "logs/a.log.1": 2, "logs/x": 9}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    assert machine.logs(str(tmp_path)).sizes == {
        f"{tmp_path}/mcpd.log": 5,
        f"{tmp_path}/logs/a.log": 3,
    }
    assert machine.logs("/no/such").sizes == {}


def test_watches_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.inotify(str(tmp_path)) is None

    class UsedUp(machine.Inotify):
        def add(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(machine, "Inotify", UsedUp)
    assert machine.inotify(str(tmp_path)) == "no watch is left (No space left on device)"

    def none() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(machine, "Inotify", none)
    assert machine.inotify(str(tmp_path)) == "no instance is left (Too many open files)"


def test_units_that_are_installed(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    unit = tmp_path / "c" / "systemd" / "user" / "mcpd.service"
    assert str(unit) in list(machine.unit_files(env))
    unit.parent.mkdir(parents=True)
    unit.touch()
    assert str(unit) in machine.machine(str(tmp_path), str(tmp_path), env).units
