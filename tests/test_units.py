"""The units in ``systemd/`` are what ``mcpd.service.units`` makes, and systemd can read them."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd import cli
from mcpd.errors import ConfigError
from mcpd.service import giveup, units
from mcpd.service.units import Setup

FOLDER = Path(__file__).parent.parent / "systemd"
LOG = "/Users/you/.local/state/mcpd/mcpd.log"
ODD = Setup(
    command=("/opt/my tools/100%/$bin/mcpd",),
    config='/home/ada/a "$b" \\c.toml',
    socket="/run/user/1/my %n/mcpd.sock",
    state_dir="/var/lib/ada lovelace/100%",
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mcpd.service", units.service(Setup())),
        ("mcpd.socket", units.socket(Setup())),
        ("dev.mcpd.plist", units.agent(Setup(), log=LOG)),
    ],
)
def test_the_copies_are_what_is_installed(name: str, text: str):
    """
    What packagers take must not be something else.
    """
    assert (FOLDER / name).read_text() == text


def test_final_statuses_are_the_same_everywhere():
    """B152: a manager that starts anew after one of these does so for ever."""
    final = (cli.USAGE, cli.CANNOT_BE_PRIVATE, cli.ANOTHER_RUNS, cli.BAD_CONFIG)
    assert units.FINAL == giveup.DOOMED == final


def test_the_whole_control_group_is_stopped():
    """B150: ``KillMode=process`` leaves children behind."""
    lines = units.service(Setup()).splitlines()
    assert "KillMode=mixed" in lines
    assert "Type=notify" in lines
    assert "OOMPolicy=continue" in lines
    assert f"RestartPreventExitStatus={' '.join(map(str, units.FINAL))}" in lines


def test_limits_on_files_are_set():
    """B155: a manager's default is low."""
    assert "LimitNOFILE=1024:65536" in units.service(Setup()).splitlines()
    agent = plistlib.loads(units.agent(Setup(), log=LOG).encode())
    assert agent["HardResourceLimits"]["NumberOfFiles"] == 65536


def test_odd_paths_are_quoted():
    text = units.service(ODD)
    words = r'"/opt/my tools/100%%/$bin/mcpd" --config "/home/ada/a \"$$b\" \\c.toml"'
    assert f'ExecStart={words} --socket "/run/user/1/my %%n/mcpd.sock"\n' in text
    assert 'Environment="MCPD_STATE_DIR=/var/lib/ada lovelace/100%%"\n' in text
    assert "ListenStream=/run/user/1/my %%n/mcpd.sock\n" in units.socket(ODD)
    agent = plistlib.loads(units.agent(ODD, log=LOG).encode())
    assert agent["ProgramArguments"] == list(ODD.argv)
    assert agent["EnvironmentVariables"]["MCPD_STATE_DIR"] == ODD.state_dir


@pytest.mark.parametrize("text", ["/a\nExecStartPre=/bin/false", "/a\0", "/a\x1b[1m"])
def test_a_path_cannot_write_lines_of_its_own(text: str):
    for setup in (Setup(command=(text,)), Setup(config=text), Setup(state_dir=text)):
        with pytest.raises(ConfigError, match="no unit can hold"):
            units.service(setup)
        with pytest.raises(ConfigError, match="no unit can hold"):
            units.agent(setup, log=LOG)
    with pytest.raises(ConfigError, match="no unit can hold"):
        units.socket(Setup(socket=text))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("odd", [False, True])
def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path, odd: bool):
    program = tmp_path / ("with blanks, 100% and $dollars" if odd else "bin") / "mcpd"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    setup = Setup(command=(str(program),))
    if odd:
        setup = setup._replace(config=ODD.config, socket=ODD.socket, state_dir=ODD.state_dir)
    for name, text in [
        ("mcpd.service", units.service(setup)),
        ("mcpd.socket", units.socket(setup)),
    ]:
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [
            "systemd-analyze",
            "--user",
            "verify",
            tmp_path / "mcpd.service",
            tmp_path / "mcpd.socket",
        ],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
