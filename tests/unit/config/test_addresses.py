"""Addresses to listen on, and the table that has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpd.config.addresses import parse
from mcpd.config.load import Loaded, load


@pytest.mark.parametrize(
    ("text", "host", "port", "path"),
    [
        ("127.0.0.1:6273", "127.0.0.1", 6273, None),
        ("localhost:1", "localhost", 1, None),
        ("[::1]:65535", "::1", 65535, None),
        ("unix:/run/mcpd/http.sock", None, 0, "/run/mcpd/http.sock"),
    ],
)
def test_an_address(text: str, host: str | None, port: int, path: str | None) -> None:
    found = parse(text)
    assert found is not None
    assert (found.host, found.port, found.path) == (host, port, path)
    assert found.is_loopback


@pytest.mark.parametrize(
    "text",
    ["6273", ":6273", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "::1:80", "[127.0.0.1]:80",
     "unix:relative", "example.com:80", "http://127.0.0.1:80", "127.0.0.1:80 "],
)  # fmt: skip
def test_no_address(text: str) -> None:
    assert parse(text) is None


def loaded(tmp_path: Path, text: str) -> Loaded:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load(str(file), {"HOME": str(tmp_path)})


def test_an_address_or_a_list_of_them(tmp_path: Path) -> None:
    assert loaded(tmp_path, '[http]\nlisten = ""\n').http.listen == ()
    assert loaded(tmp_path, '[http]\nlisten = "[::1]:80"\n').http.listen == ("[::1]:80",)
    both = loaded(tmp_path, '[http]\nlisten = ["127.0.0.1:80", "unix:/a"]\n')
    assert both.http.listen == ("127.0.0.1:80", "unix:/a")
    assert not both.problems


@pytest.mark.parametrize(
    "more", ["", "allow_remote = true\nauth = 'none'\n", "allow_remote = false\n"]
)
def test_an_address_that_others_reach_is_refused_at_its_place(tmp_path: Path, more: str) -> None:
    """
    The others go on.
    """
    found = loaded(tmp_path, f'[http]\n{more}listen = ["127.0.0.1:80", "0.0.0.0:80"]\n')
    assert found.http.listen == ("127.0.0.1:80",)
    [problem] = found.errors
    assert "0.0.0.0:80" in problem.message
    assert problem.line == 2 + more.count("\n")


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[http]\nallow_remote = true\nlisten = "0.0.0.0:80"\n')
    assert found.http.listen == ("0.0.0.0:80",)
    assert not found.problems


@pytest.mark.parametrize(
    "line",
    ['listen = "6273"', "listen = 6273", 'listen = ["x"]', 'allowed_origins = ["*"]',
     'allowed_origins = ["http://localhost:1/"]', 'allowed_hosts = ["a b"]', "max_sessions = 0",
     'auth = "basic"', "keepalive = -1"],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, line: str) -> None:
    [problem] = loaded(tmp_path, f"[http]\n{line}\n").errors
    assert problem.line == 2
    assert problem.key.startswith(f"http.{line.partition(' ')[0]}")
