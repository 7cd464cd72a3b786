"""What a daemon loads for servers that are reached by URL."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")


def _maps(box) -> str:
    return Path(f"/proc/{box.daemon.pid}/maps").read_text()


def test_a_daemon_without_remote_servers_loads_no_http_client(box):
    box.fake("echo").up()
    box.session("echo").text("echo", text="x")
    assert "aiohttp" not in _maps(box) and "multidict" not in _maps(box)


def test_the_first_remote_server_loads_it(box):
    box.servers["far"] = {"url": "http://127.0.0.1:9/mcp"}
    box.fake("echo").up()
    assert "aiohttp" not in _maps(box)
    assert box.ctl("call", "far", "echo").returncode == 4
    assert "aiohttp" in _maps(box)
