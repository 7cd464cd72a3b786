"""From facts to what is said."""

from __future__ import annotations

from pathlib import Path

from mcpd.config.entry import entry_from_json
from mcpd.config.load import Loaded
from mcpd.doctor.examine import _with_limits, examine, findings, judge
from mcpd.doctor.facts import Command, Daemon, Facts, Files, Talk

NOTHING = Facts(
    version="1.0", place=None, talk=None, daemon=None, files=None, machine=None, ledgers=None
)  # fmt: skip


def test_what_hung_is_told_and_nothing_is_made_up() -> None:
    facts = Facts(
        **{
            **{f: getattr(NOTHING, f) for f in NOTHING.__struct_fields__},
            "unfinished": ("the ledgers",),
        }
    )
    (found,) = judge(facts)
    assert (found.id, found.severity) == ("not_looked_at", "warning")
    assert "the ledgers" in found.message


def test_a_server_is_explained_once() -> None:
    command = Command(server="s", command="x", trouble="command not found: 'x'", hint="h")
    status = {
        "name": "s", "state": "failed", "restarts": 0, "sharing": "shared", "sharing_reason": None,
        "last_error": "s cannot be started", "last_error_kind": "spawn_failed",
    }  # fmt: skip
    facts = Facts(
        version="1.0", place=None, talk=Talk(status={"servers": [status]}), daemon=None,
        files=Files(loaded=Loaded(), is_daemons=True, commands=(command,)), machine=None,
        ledgers=None,
    )  # fmt: skip
    assert [each.id for each in judge(facts) if each.severity == "error"] == ["command_not_found"]


def test_without_a_daemon_the_rest_is_looked_at_and_nothing_is_made(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run"), "PATH": "/bin"}
    found = {each.id: each for each in examine(None, None, env)}
    assert found["daemon_absent"].remedy == "mcpctl up"
    assert {"no_servers", "python", "disk"} <= set(found)
    assert {each.severity for each in found.values()} == {"note", "ok"}
    assert list(tmp_path.iterdir()) == []


def test_limits_that_cannot_be_seen_are_those_that_the_daemon_tells() -> None:
    """
    B155: macOS shows nobody the limits of another process.
    """
    told = {"soft": 256, "hard": None, "open": 9}
    said = Talk(status={"daemon": {"nofile": told}, "servers": []})
    found = _with_limits(Daemon(pid=1), said)
    assert found and (found.nofile, found.open_fds) == ((256, -1), 9)
    seen = Daemon(pid=1, nofile=(1, 2))
    assert _with_limits(seen, said) is seen
    assert _with_limits(None, said) is None
    assert _with_limits(Daemon(pid=1), Talk(status={"daemon": {}})) == Daemon(pid=1)


def test_what_is_quoted_is_masked_before_it_is_cut() -> None:
    """
    B139: whoever asks for help pastes what the doctor says.
    """
    secret = "Zqj0-Sentinel/12345-jqZ"
    mine = entry_from_json(
        {"command": f"/opt/{secret}/run", "env": {"API_KEY": secret}}, name="s", env={}, cwd="/"
    )
    for length in range(10, 45):
        tool = {"name": f"t {secret}", "inputSchema": "." * length + secret}
        command = Command(server="s", command=f"/opt/{secret}/run", trouble=f"no {secret}")
        loaded = Loaded(entries={"s": mine})
        facts = Facts(
            version="1.0", place=None, talk=Talk(tools={"s": [tool], "t": [tool]}), daemon=None,
            files=Files(loaded=loaded, is_daemons=True, commands=(command,)), machine=None,
            ledgers=None,
        )  # fmt: skip
        told = [f"{each.message} {each.remedy}" for each in findings(facts)]
        assert any("no ***" in text for text in told)
        assert any("no object" in text for text in told)
        assert not [text for text in told if "Zqj" in text or "jqZ" in text]
