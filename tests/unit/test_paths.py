"""Where the socket, its locks, the state and the configuration are."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from mcpd import paths

UID = os.geteuid()


def runtime_of_length(total: int) -> str:
    """Return an XDG_RUNTIME_DIR that makes the socket's path ``total`` bytes long."""
    return "/" + "r" * (total - len("//mcpd/mcpd.sock"))


def test_the_flag_beats_the_variable_and_that_the_runtime_directory():
    env = {"MCPD_SOCKET": "/b/s", "XDG_RUNTIME_DIR": "/run/me"}
    assert paths.socket_path("/a/s", env) == "/a/s"
    assert paths.socket_path(None, env) == "/b/s"
    assert paths.socket_path(None, {**env, "MCPD_SOCKET": ""}) == "/run/me/mcpd/mcpd.sock"


@pytest.mark.parametrize("runtime", [None, "", "relative/dir"])
def test_without_a_usable_runtime_directory_the_place_depends_on_the_uid_alone(runtime):
    env = {} if runtime is None else {"XDG_RUNTIME_DIR": runtime}
    found = paths.socket_path(None, env)
    assert found in {f"/run/user/{UID}/mcpd/mcpd.sock", f"/tmp/mcpd-{UID}/mcpd.sock"}
    assert paths.is_default_directory(found, env)


def test_a_run_directory_of_somebody_else_is_not_used(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)

    def foreign(path):
        assert path == "/run/user/4242"
        return os.stat_result((0o40700, 1, 1, 2, 4243, 0, 0, 0, 0, 0))

    monkeypatch.setattr(os, "stat", foreign)
    assert paths.socket_path(None, {}) == "/tmp/mcpd-4242/mcpd.sock"


def test_a_run_directory_of_our_own_is_used(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(
        os, "stat", lambda path: os.stat_result((0o40700, 1, 1, 2, 4242, 0, 0, 0, 0, 0))
    )
    assert paths.socket_path(None, {}) == "/run/user/4242/mcpd/mcpd.sock"


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    """
    The daemon sits in /, its clients anywhere.
    """
    monkeypatch.chdir(tmp_path)
    assert paths.socket_path("run/./s", {}) == f"{os.getcwd()}/run/s"


@pytest.mark.parametrize("length", [103, 104, 107, 108, 120])
def test_a_path_that_is_too_long_gives_a_short_private_one(length):
    """
    B117: what does not fit into ``sun_path`` is replaced, what fits is not.
    """
    env = {"XDG_RUNTIME_DIR": runtime_of_length(length)}
    whole = env["XDG_RUNTIME_DIR"] + "/mcpd/mcpd.sock"
    assert len(whole) == length
    found = paths.socket_path(None, env)
    assert len(found) <= paths.MAX_SOCKET_BYTES
    assert (found == whole) == (length <= paths.MAX_SOCKET_BYTES)
    assert paths.is_default_directory(found, env)


def test_length_is_counted_in_bytes_not_characters():
    long = "/" + "é" * 60
    assert paths.socket_path(long, {}) != long
    assert paths.socket_path("/" + "é" * 50, {}) == "/" + "é" * 50


def test_client_and_daemon_derive_the_same_short_path(tmp_path):
    """
    B117: the client sees its own environment, the daemon gets the path as a flag or not at all.
    """
    env = {"XDG_RUNTIME_DIR": runtime_of_length(120)}
    one = paths.socket_path(None, env)
    assert one == paths.socket_path(env["XDG_RUNTIME_DIR"] + "/mcpd/mcpd.sock", {"HOME": "/x"})
    assert one == paths.socket_path(one, env)
    assert one != paths.socket_path(None, {"XDG_RUNTIME_DIR": runtime_of_length(121)})


def test_only_directories_named_after_us_are_the_default():
    env = {"XDG_RUNTIME_DIR": "/run/me"}
    assert paths.is_default_directory("/run/me/mcpd/mcpd.sock", env)
    assert paths.is_default_directory(f"/tmp/mcpd-{UID}/other.sock", env)
    assert not paths.is_default_directory("/run/me/mcpd.sock", env)
    assert not paths.is_default_directory("/tmp/mcpd.sock", env)
    assert not paths.is_default_directory("/run/me/mcpd/deeper/mcpd.sock", env)


def test_locks_lie_beside_the_socket():
    assert paths.lock_path("/a/s") == "/a/s.lock"
    assert paths.start_lock_path("/a/s") == "/a/s.start"


def test_the_state_directory():
    env = {"MCPD_STATE_DIR": "/m", "XDG_STATE_HOME": "/x", "HOME": "/h"}
    assert paths.state_dir(env) == "/m"
    assert paths.state_dir({**env, "MCPD_STATE_DIR": ""}) == "/x/mcpd"
    assert paths.state_dir({"HOME": "/h"}) == "/h/.local/state/mcpd"
    assert paths.state_dir({"HOME": "/h", "XDG_STATE_HOME": "not/absolute"}).startswith("/h/")


def test_the_note_of_places_depends_on_home_alone():
    env = {"MCPD_STATE_DIR": "/m", "XDG_STATE_HOME": "/x", "HOME": "/h"}
    assert paths.place_path(env) == "/h/.local/state/mcpd/place.json"


def test_the_usual_runtime_directory_names_no_place(monkeypatch):
    monkeypatch.setattr(paths, "_own_directory", lambda: "/run/user/7/mcpd")
    assert not paths.is_place_named(None, None, {"HOME": "/h", "XDG_CONFIG_HOME": "/c"})
    assert not paths.is_place_named(None, None, {"XDG_RUNTIME_DIR": "/run/user/7"})
    assert paths.is_place_named(None, None, {"XDG_RUNTIME_DIR": "/run/other"})


def test_the_configuration_directory():
    assert paths.config_home({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == "/x/mcpd"
    assert paths.config_home({"HOME": "/h"}) == "/h/.config/mcpd"


def test_home_is_found_without_the_variable():
    assert os.path.isabs(paths.home({}))
    assert paths.home({"HOME": "relative"}) == paths.home({})


def test_a_user_without_an_entry_has_a_private_home(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999)
    assert paths.home({}) == "/tmp/mcpd-3999999999"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("files", "files"),
        ("My_srv-2", "My_srv-2"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        ("50%", "50%25"),
        ("é", "%C3%A9"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_server_names_become_file_names(name, file):
    assert paths.file_name(name) == file


def test_long_server_names_are_cut_and_told_apart():
    names = ["a" * 100, "a" * 101, "a" * 102, "é" * 200, "é" * 199 + "è"]
    files = [paths.file_name(name) for name in names]
    assert files[0] == names[0]
    assert len(set(files)) == len(files)
    for file in files:
        assert len(file) <= 100
        assert re.fullmatch(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+", file), file


def test_importing_it_needs_os_alone():
    """
    The bridge imports it before its first byte.
    """
    program = (
        "import sys, os; before = set(sys.modules); sys.path.insert(0, sys.argv[1]);"
        "import mcpd.paths; print(sorted(set(sys.modules) - before))"
    )
    root = os.path.dirname(os.path.dirname(paths.__file__))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, root],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['__future__', 'mcpd', 'mcpd.paths']"
