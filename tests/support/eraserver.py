#!/usr/bin/env python3
"""A server of either era that can do nothing but say so: for how a server's era is found out.

The first argument is its directory. ``script.json`` there is a list of what each process does, the
last for all that follow: ``era`` (``legacy``), ``probe`` (``answer``, ``silent``, ``die``),
``delay`` seconds before it reads, ``says`` on stderr before that, ``child`` to leave a descendant.
``pids`` gets its pid, ``read`` each message with the time, ``others`` those that still ran.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"


def is_alive(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def note(file: Path, what: object) -> None:
    """Append a line of JSON in one write."""
    with file.open("ab", buffering=0) as out:
        out.write(json.dumps(what).encode() + b"\n")


def answer(method: str, era: str) -> dict[str, Any] | None:
    """Return the result of a request, ``None`` where the era has no such request."""
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
    if era == "legacy" and method == "initialize":
        info = {"name": "era", "version": "1"}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": info,
        }
    if era == "modern" and method == "server/discover":
        return {"supportedVersions": [MODERN], "capabilities": capabilities}
    if method == "tools/list":
        return {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return None


def main(home: Path) -> None:
    """Do what the script says of this process, then serve until the end of input."""
    earlier = [json.loads(line) for line in (home / "pids").read_text().splitlines()]
    script = json.loads((home / "script.json").read_text())
    do = script[min(len(earlier), len(script) - 1)]
    note(home / "others", [pid for pid in earlier if is_alive(pid)])
    note(home / "pids", os.getpid())
    if do.get("child"):
        null = subprocess.DEVNULL
        child = subprocess.Popen(
            ["sleep", "987"], stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        child.returncode = 0  # it is left on purpose: no warning about it
        note(home / "pids", child.pid)
    if do.get("says"):
        print(do["says"], file=sys.stderr, flush=True)
    time.sleep(do.get("delay", 0))
    era, is_first = do.get("era", "legacy"), True
    for line in sys.stdin.buffer:
        message = json.loads(line)
        note(home / "read", {"at": time.time(), "pid": os.getpid(), **message})
        if "id" not in message:
            continue
        if is_first and message["method"] == "server/discover":
            if do.get("probe") == "die":
                os._exit(3)
            if do.get("probe") == "silent":
                continue
        is_first = False
        if message["method"] == "subscriptions/listen":
            continue
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], era)
        if result is None:
            said["error"] = {"code": -32601, "message": "Method not found"}
        else:
            said["result"] = result
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
