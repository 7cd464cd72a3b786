"""A login shell is asked for its PATH: real shells, and what rc files do to them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpd.config.entry import entry_from_json
from mcpd.daemon.servers.server import assemble
from mcpd.supervise.loginenv import loginshell
from mcpd.supervise.loginenv.loginpath import LoginResult
from mcpd.supervise.loginenv.loginshell import LoginShell
from mcpd.supervise.proctable import procfs
from mcpd.upstreams.stdio.spec import ProcessSpec
from tests.integration.supervise.conftest import House
from tests.support.waiting import wait_until_async

OWN = "/usr/bin:/bin"


def spec(**variables: str) -> ProcessSpec:
    configured = entry_from_json({"command": "npx", "env": variables}, name="s", env={}, cwd="/")
    made = assemble(configured, base_env={"PATH": OWN, "X": "1"}).backend
    assert made is not None
    return made


class Asked:
    """A login shell with a home of its own, and what came of asking it."""

    def __init__(
        self,
        house: House,
        home: Path,
        shell: str = "/bin/bash",
        *,
        own: str = OWN,
        keeps: bool = True,
    ) -> None:
        self.home = home
        self.told: list[LoginResult] = []
        self.woken = 0
        self.answers = 0
        env = {"PATH": own, "HOME": str(home), "SHELL": shell}
        self.path = LoginShell(
            env,
            reaper=house.reaper,
            daemon_id=house.daemon_id,
            on_result=self.told.append,
            on_variables=self.answer,
            keeps_variables=lambda: keeps,
        )

    def answer(self) -> None:
        self.answers += 1

    def wake(self) -> None:
        self.woken += 1

    async def login(self) -> LoginResult:
        assert self.path.must_wait(spec(), self.wake)
        await wait_until_async(lambda: bool(self.told), what="what the shell says")
        await self.path.close()
        return self.told[0]


async def test_what_a_terminal_would_have_is_found(house: House, tmp_path: Path) -> None:
    """
    A login shell reads one rc file and an interactive one another; version managers are in both.
    """
    (tmp_path / ".profile").write_text("PATH=/opt/profile:$PATH\n")
    (tmp_path / ".bashrc").write_text("PATH=/opt/bashrc:$PATH\n")
    asked = Asked(house, tmp_path)
    login = await asked.login()
    assert {"/opt/profile", "/opt/bashrc"} <= set(login.path.split(":"))
    assert asked.woken >= 1
    assert asked.path.base_of(spec()) == {"PATH": login.path, "X": "1"}
    assert asked.path.base_of(spec(PATH="/mine"))["PATH"] == OWN
    assert not asked.path.must_wait(spec(), asked.wake)


async def test_an_rc_file_that_turns_its_output_away_turns_the_answer_away_not(
    house: House, tmp_path: Path
) -> None:
    """
    A login shell of bash closes most descriptors when it becomes another program.
    """
    (tmp_path / ".bashrc").write_text("PATH=/opt/bashrc:$PATH\nexec >/dev/null\n")
    assert "/opt/bashrc" in (await Asked(house, tmp_path).login()).path


async def test_its_variables_are_known_too_unless_nobody_may_keep_them(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / ".profile").write_text("export ONLY='a b\nc'\n")
    asked = Asked(house, tmp_path)
    assert asked.path.variables is None
    await asked.login()
    assert asked.path.variables is not None
    assert asked.path.variables["ONLY"] == "a b\nc"
    assert "TERM" not in asked.path.variables
    kept = Asked(house, tmp_path, keeps=False)
    await kept.login()
    assert kept.path.variables is None


async def test_a_daemon_with_a_path_of_its_own_asks_for_variables_alone(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / ".profile").write_text("export ONLY=x PATH=/opt/profile:$PATH\n")
    asked = Asked(house, tmp_path, own="/opt/mine:/usr/bin:/bin")
    assert not asked.path.must_wait(spec(), asked.wake)
    asked.path.ask()
    asked.path.ask()
    await wait_until_async(lambda: asked.path.variables is not None, what="the answer")
    assert asked.path.variables is not None and asked.path.variables["ONLY"] == "x"
    assert asked.path.login is None and not asked.told and asked.answers == 1
    assert asked.path.base_of(spec())["PATH"] == OWN
    await asked.path.close()


async def test_without_descriptors_nobody_waits_for_the_shell_for_ever(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It has our own PATH then, and a start may go on.
    """

    def none_left() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(loginshell.os, "pipe", none_left)
    login = await Asked(house, tmp_path).login()
    assert login.failure is not None
    assert "Too many open files" in login.failure
    assert login.path == OWN


async def test_what_an_rc_file_leaves_running_is_ended(house: House, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    (tmp_path / ".bashrc").write_text(f"setsid sleep 1000 & echo $! > {pids}\n")
    await Asked(house, tmp_path).login()
    left = procfs.identify(int(pids.read_text()))
    await wait_until_async(lambda: left is None or not procfs.lives(left))


async def test_an_rc_file_that_becomes_another_program_is_not_asked_again_the_same_way(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / ".profile").write_text("PATH=/opt/profile:$PATH\n")
    (tmp_path / ".bashrc").write_text("exec cat\n")
    assert "/opt/profile" in (await Asked(house, tmp_path).login()).path


async def test_closing_ends_a_shell_that_is_being_asked(house: House, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / ".profile").write_text(f"echo $$ > {pid}; sleep 1000\n")
    asked = Asked(house, tmp_path)
    assert asked.path.must_wait(spec(), asked.wake)
    await wait_until_async(lambda: pid.exists() and bool(pid.read_text()), what="the shell")
    shell = procfs.identify(int(pid.read_text()))
    await asyncio.wait_for(asked.path.close(), 20)
    assert shell is not None
    assert not procfs.lives(shell)
    assert not asked.told


async def test_who_names_a_path_of_its_own_waits_for_nobody(house: House, tmp_path: Path) -> None:
    asked = Asked(house, tmp_path)
    assert not asked.path.must_wait(spec(PATH="/mine"), asked.wake)
