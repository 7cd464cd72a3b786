"""Real programs read their own files, start the bridge, and list the tools of one daemon."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpd import exits
from tests.real.model import Model
from tests.real.programs import PROGRAMS, Program, Words
from tests.support.daemon import FAKE_SERVER, TAG, Box, Peer, is_alive
from tests.support.waiting import scaled, wait_until

Json = dict[str, Any]

MCPCTL = """#!{python}
import sys
import mcpd.paths
mcpd.paths._own_directory = lambda: {directory!r}
from mcpctl.__main__ import main
sys.exit(main())
"""
"""A ``mcpctl`` for which the default socket is in the box: programs do not pass on where it is."""


class House:
    """A home directory with files of programs, its daemon, and a model."""

    def __init__(self, box: Box, real: Path) -> None:
        self.box, self.real = box, real
        self.home = box.root / "home"
        self.mcpctl = box.root / "bin" / "mcpctl"
        self.mcpctl.parent.mkdir()
        default = str(box.root / "default")
        self.mcpctl.write_text(MCPCTL.format(python=sys.executable, directory=default))
        self.mcpctl.chmod(0o755)
        npm = [real / at / "node_modules/.bin" for at in ("programs", ".")]
        box.env = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(map(str, [self.mcpctl.parent, *npm, "/usr/bin", "/bin"])),
            "XDG_RUNTIME_DIR": str(box.root / "run"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            TAG: box.tag,
        }
        box.socket = box.root / "run" / "mcpd" / "mcpd.sock"
        flags = ["--name", "fake", "--pidfile", str(box.root / "fake.pids")]
        self.entry = {"command": sys.executable, "args": [str(FAKE_SERVER), *flags]}
        self.sent: list[str] = []
        self.in_session: set[str] = set()
        """The clients of the daemon while a program waited for the model."""

        self.model = Model(self._look)

    def up(self) -> House:
        """Start the daemon, and listen to it."""
        self.ctl("up")
        self.daemon = self.hello()["pid"]
        self.events = self.box.peer()
        self.events.start("mcpd/events", {})
        return self

    def _look(self, body: str) -> None:
        self.in_session |= self.clients()
        self.sent.append(body)

    def clients(self) -> set[str]:
        """Return the names of the clients that the daemon has."""
        status = json.loads(self.ctl("status", "--json"))
        return {each["client"].split()[0] for each in status["daemon"]["clients"] if each["client"]}

    def ctl(self, *words: str) -> str:
        """Run mcpctl, which does all that it is told."""
        done = subprocess.run(
            [self.mcpctl, *words],
            env=self.box.env,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=scaled(30),
            check=False,
        )
        assert done.returncode == exits.DONE, done.stdout + done.stderr
        return done.stdout

    def write(self, program: Program) -> Path:
        """Write the files of a program; return the one that has servers."""
        file = self.home / program.file
        for path, text in (
            (file, program.content(self.entry)),
            *((self.home / at, self.filled(program, text)) for at, text in program.files.items()),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return file

    def hello(self) -> Json:
        """Return what the daemon says of itself."""
        with Peer.dial(self.box.socket) as peer:
            said: Json = peer.request("mcpd/hello")
            return said

    def run(self, program: Program, words: Words, *, status: int | None = 0) -> str:
        """Run a program; return what it prints."""
        told = {name: self.filled(program, value) for name, value in program.env.items()}
        done = subprocess.run(
            [self.filled(program, word) for word in words],
            env=self.box.env | told,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=scaled(90),
            check=False,
        )
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done.stdout if words == program.lists else done.stdout + done.stderr

    def filled(self, program: Program, text: str) -> str:
        """Return a word or a variable of a program for this house."""
        file = self.home / program.file
        return text.format(home=self.home, real=self.real, file=file, model=self.model.url)

    def tools(self, program: Program) -> set[str]:
        """Return the tools that a program lists."""
        if program.lists:
            return {tool["name"] for tool in json.loads(self.run(program, program.lists))["tools"]}
        if not program.asks:
            return self.of_codex()
        self.sent.clear()
        said = self.run(program, program.asks, status=None)
        assert self.sent, said
        return {n for body in self.sent for n in re.findall(rf"\b{program.prefix}([a-z_]+)", body)}

    def of_codex(self) -> set[str]:
        """Return the tools that Codex lists for an editor; its prompts have no names of tools."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            ["codex", "app-server"],
            env=self.box.env,
            cwd=self.home,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        with Peer.over(process) as peer:
            peer.request("initialize", {"clientInfo": {"name": "tests", "version": "1"}}, 30)
            peer.notify("initialized")
            (server,) = peer.request("mcpServerStatus/list", {}, 30)["data"]
            return set(server["tools"])

    def shown(self, program: Program) -> list[str]:
        """Return what a program says of its file; times and spaces are made equal."""
        said = []
        for words, healthy in program.shows.items():
            text = self.run(program, words)
            assert healthy in text, text
            said.append(re.sub(r"[\d.]+ ?m?s\b", "…", " ".join(text.split())))
        return said

    def names(self) -> set[str]:
        """Return what clients have called themselves since the last time."""
        found: set[str] = set()
        with Peer.dial(self.box.socket) as last:
            last.initialize(name="last")
            while "last" not in found:
                event = self.events.take_notification("mcpd/event")
                if event["event"] == "session.named":
                    found.add(event["client"].split()[0])
        return found - {"last"}

    def running(self) -> set[int]:
        """Return the processes of the server that run."""
        return set(filter(is_alive, self.box.pids()))


@pytest.fixture(scope="module")
def house(box: Box, real: Path) -> Iterator[House]:
    made = House(box, real).up()
    yield made
    made.model.close()


@pytest.mark.timeout(400)  # some agents take seconds of computing for each start
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_uses_the_one_daemon_until_it_is_released(
    name: str, house: House, request: pytest.FixtureRequest
) -> None:
    """
    It starts the server itself before and afterwards, and its file is the old one to the byte.
    """
    program = PROGRAMS[name]
    request.getfixturevalue(program.needs)
    file, client = house.write(program), house.filled(program, program.client)
    tools, shown = house.tools(program), house.shown(program)
    before, alone = file.read_bytes(), len(house.box.pids())
    assert house.names() == set()

    house.ctl("adopt", client, "--yes")
    house.in_session.clear()
    house.ctl("start", "fake")
    server = house.box.status()["pid"]
    with Peer.dial(house.box.socket) as peer:
        listed = peer.request("mcpd/tools", {"server": "fake"})["tools"]
    assert tools == {tool["name"] for tool in listed}
    wait_until(lambda: house.running() == {server}, what="the end of the program's own server")
    assert house.tools(program) == tools
    assert len(house.shown(program)) == len(shown)
    assert set(house.box.pids()[alone:]) <= {server}
    assert house.box.status()["pid"] == server
    assert house.hello()["pid"] == house.daemon
    assert house.names() == {*program.named}
    assert house.in_session & {*program.named} or not program.asks

    house.ctl("release", client, "--yes")
    assert file.read_bytes() == before
    assert house.shown(program) == shown
    assert house.tools(program) == tools
    assert house.names() == set()


def test_a_program_that_passes_nothing_on_starts_the_daemon_for_others(
    real: Path, make_box: Callable[[], Box]
) -> None:
    """
    Two clients that start servers with six variables: the second finds the daemon of the first.
    """
    house = House(make_box(), real)
    del house.box.env["XDG_RUNTIME_DIR"]
    house.box.socket = house.box.root / "default" / "mcpd.sock"
    try:
        daemons, listed = set(), []
        for name in ("python-1.30", "fastmcp"):
            program = PROGRAMS[name]
            house.write(program)
            house.ctl("adopt", house.filled(program, program.client), "--yes")
            listed.append(house.tools(program))
            daemons.add(house.hello()["pid"])
        assert listed[0] == listed[1] != set()
        assert len(daemons) == len(house.box.pids()) == 1
    finally:
        house.ctl("down")
        house.model.close()
