"""The command line of ``mcpd``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcpd.cli import _read


def test_options_may_be_written_in_either_way() -> None:
    options = _read(["--config", "a.toml", "--socket=s", "--log-level", "debug"])
    assert options is not None
    assert (options.config, options.socket, options.log_level) == ("a.toml", "s", "debug")
    assert not options.check


def test_the_last_one_counts() -> None:
    options = _read(["--config=a", "--config=b=c", "--check"])
    assert options is not None
    assert options.config == "b=c"
    assert options.check


@pytest.mark.parametrize(
    "argv", [["x"], ["--config"], ["--config="], ["--check=yes"], ["--log-level", "loud"], ["-v"]]
)
def test_what_means_nothing_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=r"--|argument"):
        _read(argv)


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["--version"]])
def test_what_is_only_asked_for_is_told(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _read(argv) is None
    assert "mcpd" in capsys.readouterr().out


def test_nothing_heavy_is_loaded_before_the_socket_listens() -> None:
    """
    Whoever starts a daemon waits until it listens, and most of the start-up time is imports.
    """
    script = (
        "import sys, mcpd.cli, mcpd.service.bind, mcpd.service.lock, mcpd.service.privatedir;"
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"asyncio", "msgspec", "logging", "subprocess", "argparse", "json"})
