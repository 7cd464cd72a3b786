"""A client that writes its file again and again while its entries are adopted and released."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from mcpd.editing import replace
from mcpd.editing.file import Format, parse
from mcpd.errors import ConfigError
from mcpd.onboarding.clients.table import BY_ID
from tests.support.clients import Home
from tests.support.waiting import wait_until
from tests.unit.onboarding.test_adopting import adopt_all, release_all

OURS = ("a", "b")
"""The servers that are adopted; the client writes into the one between them."""

TEXTS = {
    "cursor": """{
  // what a person wrote
  "mcpServers": {
    "a": {"command": "uvx", "args": ["a"]}, // tail of a
    "theirs": {"command": "uvx", "args": ["count=0"]},
    "b": {
      "command": "npx",
      "env": {"K": "v"},
    },
  },
}
""",
    "codex": """# what a person wrote
[mcp_servers.a]
command = "uvx"  # tail of a
args = ["a"]

[mcp_servers.theirs]
command = "uvx"
args = ["count=0"]

[mcp_servers.b]
command = "npx"
env = { K = "v" }
""",
    "goose": """# what a person wrote
extensions:
  a:
    type: stdio
    cmd: uvx  # tail of a
    args: [a]
  theirs:
    type: stdio
    cmd: uvx
    args: ["count=0"]
  b:
    type: stdio
    cmd: npx
    envs: {K: v}
""",
}
COUNT = re.compile(rb"(?<=count=)\d+")

LONGEST_PAUSE_S = 0.02
"""Of the client between two writes; an adoption takes about as long."""


class Writer(NamedTuple):
    """The client: it counts up in its file, and keeps a diary."""

    pid: int
    diary: Path
    """A line of one letter for each write: ``w``, or ``o`` where it wrote over ours unseen."""

    def overwritten(self) -> int:
        """Return how often it has read the file, and we have changed it before it wrote."""
        return self.diary.read_bytes().count(b"o")

    def stop(self) -> int:
        """End it after a write; return how many writes there were, all of them in the file."""
        os.kill(self.pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0, self.diary.read_text()
        return len(self.diary.read_bytes())


def renamed(path: Path, content: bytes) -> int:
    """Replace the file by another; return the inode that it had until then."""
    beside = path.with_suffix(".theirs")
    beside.write_bytes(content)
    beside.chmod(0o600)
    replace._rename(str(beside), str(path), replace._EXCHANGE)
    before = beside.stat().st_ino
    beside.unlink()
    return before


def in_place(path: Path, content: bytes) -> int:
    """Truncate the file and write it, as Claude Code and Codex do; return its inode."""
    with path.open("wb") as file:
        file.write(content)
        return os.fstat(file.fileno()).st_ino


WAYS = {"renamed": renamed, "in place": in_place}


def write_on(path: Path, format: Format, way: str, diary: int) -> None:
    """Count up in the file until the signal comes; raise if a count is lost, or the file broken."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    pauses = random.Random(7)
    count = 0

    def read() -> tuple[int, bytes] | None:
        with path.open("rb") as file:
            inode, content = os.fstat(file.fileno()).st_ino, file.read()
        parse(content, format)
        return (inode, content) if COUNT.findall(content) == [b"%d" % count] else None

    while not stopped:
        # Ours stands there for some microseconds where it came too late, until theirs is put back.
        inode, content = wait_until(read, 1, what=f"{count} in the file") or (0, b"")
        count += 1
        is_same = WAYS[way](path, COUNT.sub(b"%d" % count, content)) == inode
        os.write(diary, b"w" if is_same else b"o")
        signal.sigtimedwait([signal.SIGUSR1], pauses.uniform(0, LONGEST_PAUSE_S))


@contextlib.contextmanager
def writing(path: Path, format: Format, way: str, diary: Path) -> Iterator[Writer]:
    """Run the client in a process of its own."""
    fd = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    pid = os.fork()
    if pid == 0:
        try:
            write_on(path, format, way, fd)
            os._exit(0)
        except (AssertionError, ConfigError, OSError) as error:
            os.write(fd, f"\n{error!r}\n".encode())
        finally:
            os._exit(1)
    os.close(fd)
    writer = Writer(pid, diary)
    try:
        yield writer
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def text_of(path: Path, format: Format) -> bytes:
    """Return the file without its count; it is read again while the client is writing it."""

    def read() -> bytes | None:
        content = path.read_bytes()
        with contextlib.suppress(ConfigError):
            parse(content, format)
            return COUNT.sub(b"N", content) if COUNT.search(content) else None
        return None

    return wait_until(read, what=lambda: f"a whole file: {path.read_bytes()!r}") or b""


@pytest.mark.parametrize(
    ("client", "way", "rounds"),
    [
        ("cursor", "renamed", 200),
        ("cursor", "in place", 30),
        ("codex", "renamed", 40),
        ("goose", "renamed", 40),
    ],
)
def test_a_client_that_writes_in_a_loop_loses_nothing_and_nor_do_we(
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    way: str,
    rounds: int,
) -> None:
    """
    It finds every one of its writes again, and never a broken file. We find ours again unless it
    read the file before and wrote it afterwards, which it alone can see; the next round mends that.
    """
    monkeypatch.setattr(replace, "PAUSE", 0.002)
    if way == "renamed":  # no power cut here; what is written in place is looked for after it
        monkeypatch.setattr(os, "fsync", lambda fd: None)
    path, format = home.put(home.file(client), TEXTS[client]), BY_ID[client].format
    before = COUNT.sub(b"N", path.read_bytes())
    adopt_all(home, *OURS)
    during = COUNT.sub(b"N", path.read_bytes())
    release_all()

    def adopts() -> bool:
        return bool(adopt_all(home, *OURS)) or text_of(path, format) == during

    def releases() -> bool:
        return bool(release_all()) or text_of(path, format) == before

    steps = [(adopts, during), (releases, before)]
    undone: list[bytes] = []

    def is_explained() -> bool:
        return len(undone) <= writer.overwritten()

    with writing(path, format, way, tmp_path / "diary") as writer:
        for _ in range(rounds):
            for step, wanted in steps:
                wait_until(partial(is_done, step), what="a moment in which it is not writing")
                found = text_of(path, format)
                assert found in (before, during)
                if found != wanted:
                    undone.append(found)
                    wait_until(is_explained, 2, what="the write that undid it")
        writes = writer.stop()
    assert COUNT.findall(path.read_bytes()) == [b"%d" % writes]
    assert len(undone) < rounds, "it undid every other change"
    for step, wanted in steps:
        assert step()
        assert text_of(path, format) == wanted


def is_done(step: Callable[[], bool]) -> bool:
    """Do a step; return ``False`` if it met a file that the client had only begun to write."""
    try:
        return step()
    except ConfigError:
        return False
