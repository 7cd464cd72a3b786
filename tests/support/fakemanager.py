"""``systemctl``, ``journalctl`` and ``launchctl`` for tests: they write down what they are asked.

The state is a JSON file: whether the service is loaded, enabled, active, and how it ended. A fake
``systemctl start`` may start a real ``mcpd`` (``run``), or fail (``fail``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PROGRAMS = ("systemctl", "journalctl", "launchctl")


class FakeManager:
    """The programs, from the side of a test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        for name in PROGRAMS:
            program = self.bin / name
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" {name} "{root}" "$@"\n'
            )
            program.chmod(0o755)

    def set(self, **state: Any) -> None:
        """Have it be in this state from now on."""
        (self.root / "state").write_text(json.dumps(_load(self.root) | state))

    def get(self) -> Json:
        """Return its state."""
        return _load(self.root)

    def calls(self) -> list[str]:
        """Return what was asked, except for what only looks."""
        file = self.root / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if not set(line.split()) & {"show", "print", "reset-failed"}]

    def close(self) -> None:
        """End what was started."""
        pid = _load(self.root).get("pid")
        if pid:
            os.kill(pid, signal.SIGKILL)


def _load(root: Path) -> Json:
    file = root / "state"
    loaded: Json = json.loads(file.read_text()) if file.exists() else {}
    return loaded


def systemctl(root: Path, words: list[str], state: Json) -> int:
    """Be ``systemctl --user``."""
    if state.get("no_bus"):
        print("Failed to connect to bus: No medium found", file=sys.stderr)
        return 1
    verb, *rest = [word for word in words if word != "--user"]
    if verb == "show":
        told = {"LoadState": "loaded" if state.get("enabled") else "not-found"}
        if rest[0] == "mcpd.service":
            told |= {
                "ActiveState": "active" if state.get("pid") else state.get("end", "inactive"),
                "SubState": "running" if state.get("pid") else "dead",
                "UnitFileState": "enabled" if state.get("enabled") else "",
                "MainPID": str(state.get("pid") or 0),
                "ExecMainCode": "1" if "status" in state else "0",
                "ExecMainStatus": str(state.get("status", 0)),
                "Result": state.get("result", "success"),
                "NRestarts": "2",
                "StatusText": "3 servers: 1 ready; 1 session",
                "ActiveEnterTimestamp": "Sat 2026-11-28 09:00:00 UTC",
            }
        else:
            told["ActiveState"] = state.get("socket", "inactive")
        print("".join(f"{name}={value}\n" for name, value in told.items()), end="")
    elif verb == state.get("fail"):
        print(f"Job for {rest[-1]} failed.", file=sys.stderr)
        return 1
    elif verb == "enable":
        state["enabled"] = True
    elif verb == "disable":
        _stop_incompatible(state.get("pid"))
        state |= {"enabled": False, "socket": "inactive", "pid": None}
    elif verb == "start":
        state["socket"] = "active"
    elif verb == "restart":
        _stop_incompatible(state.get("pid"))
        state["pid"] = _begin(state)
    elif verb not in ("show-environment", "daemon-reload", "reset-failed"):
        print(f"Unknown command verb {verb}.", file=sys.stderr)
        return 1
    return 0


def launchctl(root: Path, words: list[str], state: Json) -> int:
    """Be ``launchctl``; after ``bootout`` the job is there for two more looks."""
    verb = words[0]
    going = state.get("going", 0)
    if verb == "print":
        if not state.get("loaded") and not going:
            print("Could not find service", file=sys.stderr)
            return 113
        state["going"] = max(0, going - 1)
        running = bool(state.get("pid")) and not going
        print("gui/0/dev.mcpd = {")
        print(f"\tstate = {'running' if running else 'not running'}")
        if running:
            print(f"\tpid = {state['pid']}")
        print(f"\tlast exit code = {state.get('last', '(never exited)')}\n}}")
    elif verb == "bootout":
        _stop_incompatible(state.get("pid"))
        state |= {"loaded": False, "going": 2, "pid": None}
    elif verb == "bootstrap":
        if state.get("busy", 0):
            state["busy"] -= 1
            print("Bootstrap failed: 5: Input/output error", file=sys.stderr)
            return 5
        if state.get("broken"):
            print("Bootstrap failed: 112: Could not find specified service", file=sys.stderr)
            return 112
        state |= {"loaded": True, "going": 0}
        if not state.get("lazy"):
            state["pid"] = _begin(state)
    elif verb == "kickstart":
        state["pid"] = _begin(state)
    return 0


def journalctl(root: Path, words: list[str], state: Json) -> int:
    """Be ``journalctl --output=json``."""
    if "--user" not in words or "--unit=mcpd.service" not in words:
        return 1
    for message in state.get("journal", []):
        print(json.dumps({"MESSAGE": message, "_PID": "1"}), flush=True)
    while "--follow" in words:
        time.sleep(0.1)
    return 0


def _begin(state: Json) -> int | None:
    """Start the real daemon, if it is to run, else something that lives as long."""
    argv = state.get("run", ["sleep", "600"])
    null = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, start_new_session=True)
    process.returncode = 0  # it is left on purpose: no warning about it
    return process.pid


def _stop_incompatible(pid: int | None) -> None:
    if pid:
        os.kill(pid, signal.SIGTERM)


def main(argv: list[str]) -> int:
    """Be one of the programs."""
    name, root, words = argv[0], Path(argv[1]), argv[2:]
    with (root / "calls").open("a") as calls:
        calls.write(" ".join([name, *words]) + "\n")
    state = _load(root)
    programs = {"systemctl": systemctl, "launchctl": launchctl, "journalctl": journalctl}
    status = programs[name](root, words, state)
    (root / "state").write_text(json.dumps(state))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
