"""Cases from the field: what is written to places that take nothing."""

from __future__ import annotations

import os
import subprocess

from tests.faults.ground import installed, launched
from tests.support.daemon import Box, binary
from tests.support.waiting import wait_until


def test_a_full_stderr_of_the_daemons_own_stops_no_server(box: Box):
    """
    B065: servers wrote on the daemon's stderr, nameless; a slow console or journal stalled them.
    """
    box.fake("floods", "--stderr", 500_000).write()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    daemon = subprocess.Popen(
        [binary("mcpd"), "--log-level", "debug"], env=box.env, stdout=writing, stderr=writing
    )
    box.daemon = daemon
    os.close(writing)
    try:
        wait_until(box.says_hello, 20)
        with box.session("floods") as session:
            for number in range(200):
                assert session.text("echo", text=f"{number}") == f"{number}"
        with box.peer() as peer:
            lines = peer.request("mcpd/logs", {"server": "floods", "lines": 3})["lines"]
            assert {line["source"] for line in lines} <= {"stderr", "mcpd"}
            assert peer.request("mcpd/logs", {"lines": 5})["lines"]
        assert box.down() == 0
    finally:
        os.close(reading)


def test_what_a_server_said_on_stderr_has_its_name():
    """
    B065: and in no log could anybody tell who had said what.
    """

    def two(box: Box) -> None:
        for name in ("one", "two"):
            launched(box, name, "sh", "-c", f'echo I am {name} >&2; exec "$@"', "sh")

    with installed(two) as box:
        for name in ("one", "two"):
            box.session(name).text("pid")
            log = (box.state / "logs" / f"{name}.log").read_text()
            assert f"I am {name}" in log
            assert log.count("I am") == 1
        assert "I am" not in box.log.read_text()
