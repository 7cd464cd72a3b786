"""The note of where daemons are: what is read of it, and which daemon a client finds by it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcpd import daemon_process, paths
from mcpd.daemon_start import place
from mcpd.daemon_start.place import Place

BARE = {"HOME": "/nowhere"}


def noted(number: int = 1, **other: Any) -> Place:
    """A place that differs from that of any other number."""
    known: dict[str, Any] = {
        "socket": f"/s{number}/mcpd.sock",
        "state_dir": f"/s{number}",
        "config": None,
        "config_home": f"/c{number}/mcpd",
        "pid": 1000 + number,
        "start_time": str(number),
    }
    return Place(**{**known, **other})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a client that gets no more; the default socket is nobody's."""
    monkeypatch.setattr(paths, "_own_directory", lambda: str(tmp_path / "run"))
    (tmp_path / ".local/state/mcpd").mkdir(parents=True)
    return {"HOME": str(tmp_path)}


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The sockets whose daemons live, by their locks."""
    found: set[str] = set()
    monkeypatch.setattr(daemon_process, "is_daemon_of", lambda pid, path: path in found)
    monkeypatch.setattr(daemon_process, "pid_in_lock", lambda path: 7 if path in found else None)
    monkeypatch.setattr(daemon_process, "start_time", lambda pid: str(pid - 1000))
    return found


def write(home: dict[str, str], *places: Place) -> Path:
    file = Path(paths.place_path(home))
    file.write_bytes(place.written(list(places)))
    file.chmod(0o600)
    return file


def test_what_is_written_is_read(home: dict[str, str]) -> None:
    write(home, noted(1), noted(2, config="/x.json"))
    assert [vars(each) for each in place.read(home)] == [
        vars(noted(1)),
        vars(noted(2, config="/x.json")),
    ]


def test_the_first_place_is_at_the_top_of_the_file() -> None:
    found = json.loads(place.written([noted(1), noted(2)]))
    assert (found["pid"], [each["pid"] for each in found["others"]]) == (1001, [1002])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "[" * (place.MOST_BYTES - 1),
        "{}",
        json.dumps({**vars(noted()), "socket": "relative"}),
        json.dumps({**vars(noted()), "socket": "/a\0b"}),
        json.dumps({**vars(noted()), "socket": "/\ud800"}),
        json.dumps({**vars(noted()), "socket": 5}),
        json.dumps({**vars(noted()), "pid": "1001"}),
        json.dumps({**vars(noted()), "pid": True}),
        json.dumps({**vars(noted()), "config": "x.json"}),
        json.dumps({**vars(noted()), "start_time": None}),
        json.dumps(vars(noted())) + " " * place.MOST_BYTES,
    ],
)
def test_a_note_that_is_none_is_ignored(home: dict[str, str], text: str) -> None:
    write(home, noted()).write_text(text)
    assert place.read(home) == []


def test_only_the_broken_part_of_a_note_is_ignored(home: dict[str, str]) -> None:
    file = write(home, noted(1))
    file.write_text(json.dumps({**vars(noted(1)), "others": [5, {}, vars(noted(2))]}))
    assert [each.pid for each in place.read(home)] == [1001, 1002]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_used(home: dict[str, str], mode: int) -> None:
    write(home, noted()).chmod(mode)
    assert place.read(home) == []


def test_a_file_of_somebody_else_is_not_used(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, noted())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert place.read(home) == []


@pytest.mark.parametrize("kind", ["link", "directory", "pipe", "nothing"])
def test_what_is_no_regular_file_is_not_used(home: dict[str, str], kind: str) -> None:
    file = write(home, noted())
    if kind == "link":
        file.rename(file.with_name("other"))
        file.symlink_to("other")
    else:
        file.unlink()
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    assert place.read(home) == []


def test_a_note_in_a_pipe_is_not_read(home: dict[str, str]) -> None:
    file = write(home, noted())
    text = file.read_bytes()
    file.unlink()
    os.mkfifo(file, 0o600)
    fd = os.open(file, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(fd, text)
        assert place.read(home) == []
    finally:
        os.close(fd)


def test_a_daemon_elsewhere_is_found(home: dict[str, str], living: set[str]) -> None:
    write(home, noted(1), noted(2))
    living |= {"/s1/mcpd.sock", "/s2/mcpd.sock"}
    assert place.locate(None, None, home)[0] == "/s1/mcpd.sock"
    living -= {"/s1/mcpd.sock"}
    assert place.locate(None, None, home)[0] == "/s2/mcpd.sock"
    living.clear()
    assert place.locate(None, None, home) == (paths.socket_path(None, home), {})


def test_a_dead_daemon_that_was_at_the_default_socket_hides_no_other(
    home: dict[str, str], living: set[str]
) -> None:
    write(home, noted(1, socket=paths.socket_path(None, home)), noted(2))
    living |= {"/s2/mcpd.sock"}
    assert place.locate(None, None, home)[0] == "/s2/mcpd.sock"


def test_a_lock_that_another_process_has_at_the_default_socket_hides_no_daemon(
    home: dict[str, str], living: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, noted(1))
    living |= {"/s1/mcpd.sock"}
    monkeypatch.setattr(daemon_process, "pid_in_lock", lambda path: 7)
    assert place.locate(None, None, home)[0] == "/s1/mcpd.sock"


def test_a_daemon_at_the_default_socket_comes_first(home: dict[str, str], living: set[str]) -> None:
    write(home, noted(1))
    living |= {"/s1/mcpd.sock", paths.socket_path(None, home)}
    assert place.locate(None, None, home)[0] == paths.socket_path(None, home)


@pytest.mark.parametrize(
    ("socket", "config", "more"),
    [
        ("/a.sock", None, {}),
        (None, "/c.json", {}),
        (None, None, {"MCPD_SOCKET": "/b.sock"}),
        (None, None, {"MCPD_CONFIG": "/c.json"}),
        (None, None, {"MCPD_STATE_DIR": "/state"}),
        (None, None, {"XDG_RUNTIME_DIR": "/elsewhere"}),
    ],
)
def test_who_says_which_daemon_is_meant_gets_that(
    home: dict[str, str], living: set[str], socket: str | None, config: str | None, more: Any
) -> None:
    write(home, noted(1))
    living |= {"/s1/mcpd.sock"}
    assert place.locate(socket, config, home | more) == (paths.socket_path(socket, more), {})


def test_a_process_that_started_at_another_time_is_not_that_daemon(
    home: dict[str, str], living: set[str]
) -> None:
    write(home, noted(1, start_time="9"))
    living |= {"/s1/mcpd.sock"}
    assert place.locate(None, None, home)[0] == paths.socket_path(None, home)


def test_the_next_daemon_gets_the_files_of_the_one_before() -> None:
    assert noted(1).variables(BARE) == {"MCPD_STATE_DIR": "/s1", "XDG_CONFIG_HOME": "/c1"}
    assert noted(1, config="/x.json").variables(BARE) == {
        "MCPD_STATE_DIR": "/s1",
        "MCPD_CONFIG": "/x.json",
    }
    same = noted(1, state_dir=paths.state_dir(BARE), config_home=paths.config_home(BARE))
    assert same.variables(BARE) == {}


def test_others_are_the_living_daemons_on_other_sockets(
    home: dict[str, str], living: set[str]
) -> None:
    write(home, noted(1), noted(2), noted(3))
    living |= {"/s1/mcpd.sock", "/s3/mcpd.sock"}
    assert [each.pid for each in place.others("/s1/mcpd.sock", home)] == [1003]


def test_the_time_at_which_a_process_was_started_is_its_own() -> None:
    assert daemon_process.start_time(os.getpid()) == daemon_process.start_time(os.getpid())
    assert daemon_process.start_time(os.getpid()) != daemon_process.start_time(os.getppid())
    assert daemon_process.start_time(2**22 + 1) is None
