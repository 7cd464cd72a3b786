"""Containers of a fake engine, ended by the means that the real ones have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpd.supervise import engine
from mcpd.supervise.container import Container
from tests.support.daemon import is_alive
from tests.support.fakedocker import FakeDocker
from tests.support.waiting import scaled, wait_until

POLITE = ("sleep", "600")
DEAF = (sys.executable, "-IS", "-c", "import signal\nsignal.signal(15, 1)\nwhile 1: signal.pause()")


class Yard:
    """A fake engine and what was run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.docker = FakeDocker(root / "docker")
        self.started: list[subprocess.Popen[bytes]] = []

    def run(
        self, *options: str, command: tuple[str, ...] = POLITE, label: str = "d:s:1"
    ) -> Container:
        """Run a container and kill its client once it is there."""
        cidfile = self.root / f"{len(self.started)}.cid"
        argv = [str(self.docker.bin / "docker"), "run", f"--label=mcpd.instance={label}"]
        argv += ["--cidfile", str(cidfile), *options, "img", *command]
        before = len(self.docker.containers())
        self.started.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
        wait_until(lambda: len(self.docker.containers()) > before and cidfile.read_text())
        self.started[-1].kill()
        self.started[-1].wait()
        return Container(
            argv=(argv[0],),
            label=f"mcpd.instance={label}",
            cidfile=str(cidfile),
            is_ours=True,
            removes="--rm" in options,
            env=(),
            cwd="/",
        )

    def close(self) -> None:
        self.docker.close()
        for each in self.started:
            each.kill()
            each.wait()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("command", [POLITE, DEAF], ids=["polite", "deaf"])
@pytest.mark.parametrize("options", [(), ("--rm",)], ids=["kept", "rm"])
def test_a_container_is_ended_and_its_file_removed(
    yard: Yard, options: tuple[str, ...], command: tuple[str, ...]
):
    """B008: killing the client does not end it, and SIGTERM may not either."""
    container = yard.run(*options, command=command)
    (running,) = yard.docker.running()
    assert is_alive(running["pid"])
    assert engine.end(container, grace=0.1) is None
    assert not is_alive(running["pid"])
    assert not os.path.exists(container.cidfile)
    (left,) = yard.docker.containers()
    assert left["state"] == ("removed" if options else "exited")


def test_an_id_is_all_that_ever_becomes_an_argument(yard: Yard):
    container = yard.run()
    Path(container.cidfile).write_text("--all")
    assert engine.end(container, grace=0.1) is None  # found by its label then
    assert not yard.docker.running()
    ids = [each["id"] for each in yard.docker.containers()]
    assert {call[-1] for verb in ("stop", "inspect") for call in yard.docker.calls(verb)} == {*ids}


@pytest.mark.parametrize("content", [None, "", "short", "0" * 65, "g" * 64])
def test_no_id_means_no_container_yet(yard: Yard, content: str | None):
    """
    The image is still on its way, or the client gave up before.
    """
    yard.run(label="d:other:1")
    file = yard.root / "none.cid"
    if content is not None:
        file.write_text(content)
    docker = str(yard.docker.bin / "docker")
    container = Container((docker,), "mcpd.instance=d:s:1", str(file), True, True, (), "/")
    assert engine.end(container, grace=0.1) is None
    assert len(yard.docker.running()) == 1
    assert not yard.docker.calls("stop")


def test_a_file_that_is_a_link_is_not_read(yard: Yard):
    container = yard.run()
    elsewhere = yard.root / "elsewhere"
    elsewhere.write_text(Path(yard.run(label="d:other:1").cidfile).read_text())
    os.unlink(container.cidfile)
    os.symlink(elsewhere, container.cidfile)
    assert engine.end(container, grace=0.1) is None
    assert [each["labels"] for each in yard.docker.running()] == [["mcpd.instance=d:other:1"]]


def test_what_ended_by_itself_needs_no_stop(yard: Yard):
    container = yard.run("--rm", command=("true",))
    wait_until(lambda: not yard.docker.running())
    assert engine.end(container, grace=5) is None
    assert not yard.docker.calls("stop")


def test_an_engine_that_hangs_is_not_waited_for(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    """
    Else one stop would hang for ever.
    """
    monkeypatch.setattr(engine, "ANSWER_S", 0.5)
    container = yard.run()
    (yard.docker.root / "hang").touch()
    began = time.monotonic()
    said = engine.end(container, grace=0.1)
    assert time.monotonic() - began < scaled(5)
    assert said is not None
    assert "did not answer within" in said
    assert os.path.exists(container.cidfile)  # for whoever tries again


def test_an_engine_that_is_gone_is_told(yard: Yard):
    container = yard.run()
    told = container._replace(argv=("/nowhere/docker",))
    said = engine.end(told, grace=0.1)
    assert said is not None
    assert "/nowhere/docker cannot be run" in said


def test_an_engine_that_refuses_to_look_has_not_said_that_there_is_none(yard: Yard, tmp_path: Path):
    """
    Where no file tells the id, the label has to find it; else the container would be forgotten.
    """
    down = tmp_path / "docker-that-is-down"
    down.write_text("#!/bin/sh\necho Cannot connect to the daemon >&2\nexit 1\n")
    down.chmod(0o755)
    container = yard.run()._replace(argv=(str(down),), cidfile="")
    said = engine.end(container, grace=0.1)
    assert said is not None
    assert "may run on: Cannot connect" in said


def test_several_are_ended_at_the_same_time(yard: Yard):
    containers = [yard.run(command=DEAF, label=f"d:s:{n}") for n in range(3)]
    began = time.monotonic()
    assert engine.end_all(containers, grace=4) == []
    assert time.monotonic() - began < scaled(11)
    assert not yard.docker.running()


def test_the_tag_marks_the_engines_command_alone(yard: Yard):
    """
    So a guardian finds a command that the daemon left, and no container takes part.
    """
    container = yard.run()
    docker = yard.root / "docker" / "bin" / "docker"
    seen = yard.root / "seen"
    docker.write_text(docker.read_text().replace("exec", f"env >>{seen}\nexec", 1))
    assert engine.end(container, grace=0.1, tag="d:containers:0") is None
    assert "MCPD_INSTANCE=d:containers:0" in seen.read_text()
    assert json.dumps(yard.docker.containers()).count("MCPD_INSTANCE") == 0
