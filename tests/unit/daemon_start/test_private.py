"""What a start writes belongs to this user alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mcpd.daemon_start.private import make_directory
from mcpd.daemon_start.reach import reach
from mcpd.errors import DaemonUnavailable
from tests.support.fakemcpd import Place


@pytest.mark.parametrize("above", ["dangling/mcpd", "/proc/none/mcpd"])
def test_a_directory_that_cannot_be_made_is_told(place: Place, above: str) -> None:
    """
    A home on a disk that is not there, for one.
    """
    os.symlink("/nowhere/at/all", place.directory / "dangling")
    with pytest.raises(DaemonUnavailable, match="cannot make"):
        make_directory(str(place.directory / above), "--socket")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_root_makes_nothing_in_somebody_elses_directory(tmp_path: Path):
    """B118: `sudo mcpctl` with a user's XDG_RUNTIME_DIR."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with pytest.raises(DaemonUnavailable, match="65534"):
        make_directory(str(theirs / "mcpd"), "--socket")
    assert list(theirs.iterdir()) == []


@pytest.mark.parametrize("name", ["run/mcpd.sock.start", "state/mcpd.log"])
def test_what_is_written_is_never_reached_through_a_link(place: Place, name: str) -> None:
    """
    B118: a planted link must not make us write into somebody's file.
    """
    os.mkdir(place.directory / "run", 0o700)
    target = place.directory / "precious"
    target.touch()
    os.symlink(target, place.directory / name)
    with pytest.raises(DaemonUnavailable, match="cannot open"):
        reach(place.socket, socket.socket.close)
    assert target.read_text() == ""
    assert place.starts() == []


def test_where_nothing_can_be_made_the_way_to_another_place_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DaemonUnavailable, match="cannot make") as caught:
        reach("/proc/none/mcpd.sock", socket.socket.close)
    assert "--socket" in str(caught.value.hint)
    monkeypatch.setenv("MCPD_STATE_DIR", "/proc/none")
    with pytest.raises(DaemonUnavailable, match="cannot make") as caught:
        reach(place.socket, socket.socket.close)
    assert str(caught.value.hint).endswith(": MCPD_STATE_DIR")
