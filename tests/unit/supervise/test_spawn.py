from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from mcpd.errors import SpawnFailed
from mcpd.supervise.spawn import build_environment, prepare, resolve

BASE = {
    "HOME": "/home/u",
    "USER": "u",
    "PATH": "/usr/bin",
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE",
    "HTTPS_PROXY": "http://proxy",
    "MCPD_INSTANCE": "another:daemon:1",
}


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def refusal(command: str, path: str | None, cwd: str = "/") -> SpawnFailed:
    with pytest.raises(SpawnFailed) as caught:
        resolve(command, path, cwd)
    return caught.value


def test_the_entrys_variables_go_over_the_inherited_ones():
    """B031."""
    env = build_environment(BASE, {"X": "1", "LANG": "C"}, tag="d:s:1")
    assert env == BASE | {"X": "1", "LANG": "C", "MCPD_INSTANCE": "d:s:1"}


def test_minimal_keeps_who_and_where_one_is():
    env = build_environment(BASE, {}, inherit="minimal", tag="d:s:1")
    assert sorted(env) == ["HOME", "LANG", "LC_TIME", "MCPD_INSTANCE", "PATH", "USER"]


def test_none_keeps_nothing_but_the_entrys():
    """B032: ``inherit_env = "none"`` hides proxies and everything else."""
    env = build_environment(BASE, {"X": "1"}, inherit="none", tag="d:s:1")
    assert env == {"X": "1", "MCPD_INSTANCE": "d:s:1"}


def test_no_entry_can_forge_the_tag():
    env = build_environment(BASE, {"MCPD_INSTANCE": "d:other:1"}, tag="d:s:1")
    assert env["MCPD_INSTANCE"] == "d:s:1"


@pytest.mark.parametrize(
    ("base", "entry", "added"),
    [
        ({}, {}, {"LC_CTYPE": "C.UTF-8"}),
        ({"LANG": "", "LC_TIME": "de_DE"}, {}, {"LC_CTYPE": "C.UTF-8"}),
        ({"LANG": "de_DE.UTF-8"}, {}, {}),
        ({"LANG": "de_DE.utf8"}, {}, {}),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, {}, {}),
        ({"LANG": "de_DE@euro"}, {}, {"PYTHONIOENCODING": "utf-8"}),
        ({"LANG": "C.UTF-8", "LC_ALL": "POSIX"}, {}, {"PYTHONIOENCODING": "utf-8"}),
        ({"LANG": "C", "PYTHONUTF8": "0"}, {}, {}),
        ({"LANG": "C", "PYTHONIOENCODING": "latin1"}, {}, {}),
        ({}, {"LANG": "de_DE"}, {}),
        ({}, {"PYTHONUTF8": "0"}, {}),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="its locale has another name")
def test_a_server_speaks_utf8_unless_somebody_said_otherwise(
    base: dict[str, str], entry: dict[str, str], added: dict[str, str]
):
    """B070."""
    base = {"PATH": "/usr/bin:/bin", **base}
    launch = prepare("sh", [], env=entry, cwd="/", tag="t", base_env=base)
    assert launch.env == {**base, **entry, **added, "MCPD_INSTANCE": "t"}
    bare = prepare("sh", [], env=entry, cwd="/", tag="t", inherit="none", base_env=base)
    assert bare.env == {**entry, "MCPD_INSTANCE": "t"}


def test_a_bare_name_is_found_on_the_first_directory_that_has_it(tmp_path: Path):
    first, second = program(tmp_path / "a" / "tool"), program(tmp_path / "b" / "tool")
    path = f"{tmp_path}/none:{tmp_path}/a:{tmp_path}/b"
    assert resolve("tool", path, "/") == first
    os.unlink(first)
    assert resolve("tool", path, "/") == second


def test_what_may_not_be_run_is_passed_over(tmp_path: Path):
    program(tmp_path / "a" / "tool", 0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    found = program(tmp_path / "c" / "tool")
    assert resolve("tool", f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c", "/") == found


def test_relative_directories_of_the_path_are_taken_from_the_cwd(tmp_path: Path):
    found = program(tmp_path / "bin" / "tool")
    assert resolve("tool", "bin", str(tmp_path)) == found
    assert os.path.samefile(resolve("tool", "/nowhere:", str(tmp_path / "bin")), found)


def test_a_name_with_a_slash_is_taken_from_the_cwd(tmp_path: Path):
    found = program(tmp_path / "bin" / "tool")
    assert os.path.samefile(resolve("./bin/tool", "/nowhere", str(tmp_path)), found)
    assert resolve(found, "/nowhere", "/") == found


def test_a_missing_command_names_itself_the_directories_and_the_fix(tmp_path: Path):
    """B029, B036."""
    error = refusal("npx", f"{tmp_path}/a:{tmp_path}/b")
    assert error.details == {
        "errno": errno.ENOENT,
        "searched": [f"{tmp_path}/a", f"{tmp_path}/b"],
    }
    assert "'npx'" in error.message
    assert f"{tmp_path}/b" in error.message
    assert "install Node.js" in str(error.hint)
    assert "command -v npx" in str(error.hint)


def test_a_missing_path_says_from_where_it_is_taken(tmp_path: Path):
    error = refusal("./server", "/usr/bin", str(tmp_path))
    assert error.details["errno"] == errno.ENOENT
    assert "`cwd`" in str(error.hint)


def test_a_whole_command_line_as_command_is_recognised():
    error = refusal("npx -y pkg", "/usr/bin")
    assert "args = ['-y', 'pkg']" in str(error.hint)


def test_an_empty_command_is_not_a_directory_of_the_path():
    assert refusal("", "/usr/bin").details["errno"] == errno.ENOENT


def test_a_command_without_the_executable_bit_says_chmod(tmp_path: Path):
    found = program(tmp_path / "a" / "tool", 0o644)
    for error in (refusal("tool", f"{tmp_path}/a"), refusal(found, None)):
        assert error.details["errno"] == errno.EACCES
        assert error.hint == f"chmod +x {found}"


def test_a_directory_as_command_says_so(tmp_path: Path):
    error = refusal(str(tmp_path), None)
    assert error.details["errno"] == errno.EISDIR
    assert "directory" in error.message


def test_the_directory_of_an_absolute_command_ends_the_path(tmp_path: Path):
    """
    That is where ``#!/usr/bin/env node`` finds its node.
    """
    tool = program(tmp_path / "tool")
    launch = prepare(tool, ["x"], env={}, base_env=BASE, cwd="/", tag="d:s:1")
    assert launch.env["PATH"] == f"/usr/bin:{tmp_path}"
    assert launch.argv == (tool, "x")
    bare = prepare(tool, [], env={}, base_env=BASE, cwd="/", tag="d:s:1", inherit="none")
    assert bare.env["PATH"] == f"{os.defpath}:{tmp_path}"
    there = prepare(tool, [], env={"PATH": str(tmp_path)}, base_env=BASE, cwd="/", tag="d:s:1")
    assert there.env["PATH"] == str(tmp_path)


def test_a_bare_command_is_looked_up_on_the_childs_own_path(tmp_path: Path):
    """
    And on the daemon's where the child is given none.
    """
    tool = program(tmp_path / "mine" / "tool")
    env = {"PATH": str(tmp_path / "mine")}
    assert prepare("tool", [], env=env, base_env=BASE, cwd="/", tag="d:s:1").program == tool
    none = prepare("tool", [], env={}, base_env=env, cwd="/", tag="d:s:1", inherit="none")
    assert none.program == tool
    assert "PATH" not in none.env
