"""Which PATH is poor, who is asked for a better one, and what of the answer is used."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from mcpd.supervise.loginenv import loginpath, printenv
from mcpd.supervise.loginenv.loginpath import AnswerParser, NotUsable

MARK = "0123456789abcdef"
AROUND = printenv.encoded(MARK).decode()


@pytest.mark.parametrize(
    ("path", "is_minimal"),
    [
        (None, True),
        ("", True),
        ("/usr/bin:/bin", True),
        ("/usr/bin:/bin:/usr/sbin:/sbin", True),  # launchd's
        ("/usr/local/sbin:/usr/local/bin/:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin", True),
        ("/usr/local/bin:/usr/bin:/home/ada/.local/bin", False),
        ("/opt/homebrew/bin:/usr/bin:/bin", False),
        ("/usr/bin:.", False),
    ],
)
def test_a_path_is_poor_when_it_names_standard_directories_alone(
    path: str | None, is_minimal: bool
) -> None:
    assert loginpath.is_minimal(path) is is_minimal


def test_the_shell_is_the_one_that_is_set_if_anybody_can_log_in_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell, none = tmp_path / "fish", tmp_path / "nologin"
    for path in (shell, none):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    def getpwuid(_uid: int) -> object:
        return type("entry", (), {"pw_shell": "/bin/sh", "pw_name": "ada"})

    monkeypatch.setattr("pwd.getpwuid", getpwuid)
    assert loginpath.shell_of({"SHELL": str(shell)}) == str(shell)
    for useless in (str(none), "/bin/false", "fish", str(tmp_path), str(tmp_path / "gone"), ""):
        assert loginpath.shell_of({"SHELL": useless}) == "/bin/sh"
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert loginpath.shell_of({"SHELL": "/bin/false"}) is None


def test_the_shell_gets_nothing_of_a_terminal_and_no_secret() -> None:
    env = {
        "HOME": "/home/ada",
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "XDG_CONFIG_HOME": "/home/ada/etc",
        "TERM": "xterm",
        "API_TOKEN": "sentinel",
        "MCPD_INSTANCE": "another",
    }
    found = loginpath.environment(env, "/bin/zsh", "d:login-path:1")
    passed = {"HOME", "PATH", "LC_ALL", "XDG_CONFIG_HOME"}
    made = {"USER", "LOGNAME", "SHELL", "TERM", "MCPD_RESOLVING_ENV", "MCPD_INSTANCE"}
    assert {*found} == passed | made
    assert (found["TERM"], found["SHELL"], found["MCPD_INSTANCE"]) == (
        "dumb",
        "/bin/zsh",
        "d:login-path:1",
    )


def test_a_shell_is_asked_in_words_that_it_understands() -> None:
    first, second = loginpath.command_lines("/usr/bin/fish", MARK, 7)
    assert first[:-1] == ["/usr/bin/fish", "-l", "-i", "-c"]
    assert second[:-1] == ["/usr/bin/fish", "-l", "-c"]
    assert shlex.split(first[-1])[-2:] == [MARK, "7"]
    within = shlex.split(loginpath.command_lines("/bin/bash", MARK, 7)[0][-1])
    assert within[:4] == ["exec", "/bin/bash", "-i", "-c"]
    assert shlex.split(within[4])[-2:] == [MARK, "7"]
    assert loginpath.command_lines("/bin/tcsh", MARK, 7)[0][:-1] == ["/bin/tcsh", "-i", "-c"]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_answer_is_what_is_between_the_marks_however_it_comes(size: int) -> None:
    said = f"hello\n\x1b]0;{MARK}\x07{AROUND}/a:/b{AROUND}bye".encode()
    answer = AnswerParser(MARK)
    told = [answer.feed(said[at : at + size]) for at in range(0, len(said), size)]
    assert next(each for each in told if each is not None) == "/a:/b"


def test_what_a_shell_chats_takes_no_memory() -> None:
    answer = AnswerParser(MARK)
    for _ in range(100):
        assert answer.feed(b"x" * 100_000) is None
    assert len(answer._buffer) <= len(MARK)
    answer.feed(AROUND.encode())
    for _ in range(10):
        assert answer.feed(b"x" * 1_000_000) is None
    assert len(answer._buffer) < 5_000_000


def test_variables_are_those_of_the_shell_and_not_of_its_run() -> None:
    answer = "A=1\0B=x=y\nz\0EMPTY=\0=odd\0TERM=dumb\0PWD=/\0_=/bin/x\0MCPD_RESOLVING_ENV=1\0"
    assert loginpath.variables(answer) == {"A": "1", "B": "x=y\nz", "EMPTY": ""}
    assert loginpath.variables("") == {}


def test_what_only_our_own_path_has_comes_last(tmp_path: Path) -> None:
    mine = str(tmp_path)
    told = f"{mine}:/usr/bin/:relative::{mine}:/with\ttab:/opt/x"
    assert loginpath.merge(told, "/usr/bin:/sbin") == (f"{mine}:/usr/bin:/opt/x:/sbin", 2)
    assert loginpath.merge(told, None) == (f"{mine}:/usr/bin:/opt/x", 3)


def test_a_path_that_adds_nothing_leaves_ours_as_it_is() -> None:
    """
    The order, and what else of it a server may see, is not changed for nothing.
    """
    assert loginpath.merge("/bin:/usr/bin:/usr/games", "/usr/bin:/bin") == ("/usr/bin:/bin", 0)


@pytest.mark.parametrize("told", ["", "bin:.:..", "/nowhere/at/all"])
def test_a_path_that_leads_nowhere_is_refused(told: str) -> None:
    with pytest.raises(NotUsable, match="no directory that is there"):
        loginpath.merge(told, "/usr/bin")


def test_a_path_without_an_end_is_refused() -> None:
    told = os.pathsep.join(["/usr/bin", *(f"/d{number}" for number in range(600))])
    with pytest.raises(NotUsable, match="more than 500"):
        loginpath.merge(told, "/usr/bin")
