"""What is said of a daemon, from facts."""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.config.load import Loaded
from mcpd.doctor.check.daemon import check
from mcpd.doctor.facts import Daemon, Facts, Files, Ledger, Machine, Node, Place, Talk
from mcpd.doctor.finding import Finding

SOCKET = "/run/user/1000/mcpd/mcpd.sock"
HELLO = {"version": "1.0", "pid": 42, "api": 1, "uptime_s": 1.0}


def place(**more: Any) -> Place:
    directory = Node(path="/run/user/1000/mcpd", kind="directory", uid=1000, mode=0o700)
    socket = Node(path=SOCKET, kind="socket", uid=1000, mode=0o600)
    lock = Node(path=f"{SOCKET}.lock", kind="file", uid=1000, mode=0o600)
    whole = {"wanted": SOCKET, "directory": directory, "socket": socket, "lock": lock}
    return Place(**{**whole, "holder": 42, **more})


def findings(
    talk: Talk, found: Place | None = None, daemon: Daemon | None = None, **more: Any
) -> dict[str, Finding]:
    facts = Facts(
        version="1.0",
        place=found or place(),
        talk=talk,
        daemon=daemon or Daemon(pid=42, state="S"),
        files=more.get("files"),
        machine=more.get("machine"),
        ledgers=more.get("ledgers", ()),
    )
    return {each.id: each for each in check(facts)}


WELL = Talk(pid=42, hello=HELLO, status={"servers": []})


def test_a_daemon_that_is_well_is_nothing_to_complain_of() -> None:
    assert {each.severity for each in findings(WELL).values()} == {"ok"}


def test_one_that_says_hello_alone_is_on_its_way_out() -> None:
    found = findings(Talk(pid=42, hello=HELLO))
    assert found["daemon_draining"].severity == "warning"


def test_no_daemon_is_no_error() -> None:
    found = findings(Talk(why="absent", silence="no daemon runs"), place(holder=None))
    assert (found["daemon_absent"].severity, found["daemon_absent"].remedy) == ("note", "mcpctl up")


@pytest.mark.parametrize("why", ["absent", "refused"])
@pytest.mark.parametrize(
    "more",
    [
        {"files": Files(loaded=Loaded(broken=True), is_daemons=False)},
        {"machine": Machine(python="3.11", state_dir="/s", refusal="others can write in /s")},
    ],
)
def test_what_cannot_start_is_not_started_by_the_first_use(why: str, more: dict[str, Any]) -> None:
    found = findings(Talk(why=why, silence="…"), place(holder=None), **more)
    note = found["daemon_absent" if why == "absent" else "socket_stale"]
    assert str(note.remedy).startswith("correct what keeps it from starting, then: ")
    assert "first use" not in note.message


def test_a_dead_daemons_socket_is_told_from_none() -> None:
    found = findings(Talk(why="refused", silence="…"), place(holder=None))
    assert found["socket_stale"].severity == "note"


@pytest.mark.parametrize(
    ("why", "told"), [("absent", "is not there"), ("refused", "no connection")]
)
def test_a_lock_that_is_held_where_nobody_listens_is_a_wedge(why: str, told: str) -> None:
    """
    B114: every client would try to start another one, which cannot start.
    """
    wedged = findings(Talk(why=why, silence="…"))["daemon_wedged"]
    assert wedged.severity == "error"
    assert "pid 42" in wedged.message and told in wedged.message
    assert "mcpctl down --force" in str(wedged.remedy)


@pytest.mark.parametrize(
    ("state", "told", "remedy"),
    [
        ("T", "a signal has stopped it", "kill -CONT 42"),
        ("D", "waits in the kernel", "mcpctl down --force"),
        ("R", "busy", "wait a moment"),
        ("S", "says nothing", "mcpctl down --force"),
        (None, "says nothing", "mcpctl down --force"),
    ],
)
def test_silence_is_explained_by_what_the_process_does(
    state: str | None, told: str, remedy: str
) -> None:
    """
    B114: what helps one that is stopped is not what helps one that hangs.
    """
    talk = Talk(why="unresponsive", silence="no answer", pid=42)
    found = findings(talk, daemon=Daemon(pid=42, state=state))["daemon_unresponsive"]
    assert found.severity == "error"
    assert "pid 42" in found.message and told in found.message
    assert str(found.remedy).startswith(remedy)


@pytest.mark.parametrize("why", ["not_ours", "exposed", "forbidden", "unusable"])
def test_a_socket_that_cannot_be_trusted_is_an_error(why: str) -> None:
    """
    B118: it may be somebody else's.
    """
    talk = Talk(why=why, silence="not yours: /tmp/x belongs to 7")
    found = findings(talk, place(holder=None))[f"socket_{why}"]
    assert (found.severity, found.message) == ("error", talk.silence)
    assert found.remedy


def test_the_hint_of_who_noticed_it_comes_first() -> None:
    talk = Talk(why="exposed", silence="others can write", hint="chmod go-w /tmp/x")
    assert findings(talk, place(holder=None))["socket_exposed"].remedy == "chmod go-w /tmp/x"


def test_a_socket_that_others_may_open_is_a_warning() -> None:
    socket = Node(path=SOCKET, kind="socket", uid=1000, mode=0o666)
    found = findings(WELL, place(socket=socket))["socket_mode"]
    assert (found.severity, found.remedy) == ("warning", f"chmod 600 {SOCKET}")


def test_a_path_that_was_shortened_is_told_with_both() -> None:
    """
    B117: else nobody finds the socket.
    """
    long = "/" + "d" * 120 + "/mcpd.sock"
    found = findings(WELL, place(wanted=long))["socket_path_long"]
    assert "131 bytes" in found.message and SOCKET in found.message


def test_another_version_is_a_warning() -> None:
    """
    B120: the old daemon goes on until somebody replaces it.
    """
    found = findings(Talk(pid=42, hello={**HELLO, "version": "0.9"}))["daemon_version"]
    assert "0.9" in found.message and "1.0" in found.message
    assert "mcpctl restart --daemon" in str(found.remedy)


def test_two_daemons_of_one_socket_are_an_error() -> None:
    found = findings(WELL, place(holder=43))["daemon_without_lock"]
    assert found.severity == "error"
    assert "pid 42" in found.message and "pid 43" in found.message


def test_a_lock_that_is_gone_is_a_warning() -> None:
    lock = Node(path=f"{SOCKET}.lock")
    assert findings(WELL, place(lock=lock, holder=None))["lock_missing"].severity == "warning"


def test_what_the_ledgers_tell() -> None:
    ledgers = (
        Ledger(file="a", pid=42, is_alive=True, socket=SOCKET),
        Ledger(file="b", pid=50, is_alive=True, socket="/tmp/o t/s.sock"),
        Ledger(file="c", pid=51, is_alive=True),
        Ledger(file="d", pid=60, is_alive=False, orphans=(61, 62)),
        Ledger(file="e", pid=70, is_alive=False),
    )
    facts = Facts(
        version="1.0", place=place(), talk=WELL, daemon=Daemon(pid=42), files=None, machine=None,
        ledgers=ledgers,
    )  # fmt: skip
    found = [each for each in check(facts) if each.severity == "warning"]
    assert [each.id for each in found] == ["daemon_another", "daemon_another", "orphans"]
    assert found[0].remedy == "if that is not meant: mcpctl --socket '/tmp/o t/s.sock' down"
    assert found[1].remedy == "if that is not meant: kill 51"
    assert "61 62" in found[2].message and found[2].remedy == "mcpctl restart --daemon"


def test_orphans_without_a_daemon_are_ended_by_the_next() -> None:
    ledger = Ledger(file="d", pid=60, is_alive=False, orphans=(61,))
    facts = Facts(
        version="1.0", place=place(holder=None), talk=Talk(why="absent"), daemon=None, files=None,
        machine=None, ledgers=(ledger,),
    )  # fmt: skip
    assert [each.remedy for each in check(facts) if each.id == "orphans"] == ["mcpctl up"]


@pytest.mark.parametrize(
    ("unit", "units", "ident"),
    [
        ("mcpd.service", ("/u/mcpd.service",), "daemon_service"),
        ("session-2.scope", ("/u/mcpd.service",), "daemon_not_service"),
        ("session-2.scope", (), None),
        (None, ("/u/mcpd.service",), None),
    ],
)
def test_a_service_that_is_not_the_daemon_is_told(
    unit: str | None, units: tuple[str, ...], ident: str | None
) -> None:
    machine = Machine(python="3", state_dir="/s", units=units)
    found = findings(WELL, daemon=Daemon(pid=42, unit=unit), machine=machine)
    assert {each for each in found if "service" in each} == ({ident} if ident else set())
