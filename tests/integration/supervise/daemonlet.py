"""A daemon without any protocol: it starts the commands it is given, and waits to be killed.

Usage: ``daemonlet.py STATE_DIR SCOPE COMMAND…``, each command a shell script. Prints a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

from mcpd.supervise import ladder, spawn
from mcpd.supervise.cleanup.keeper import GuardianKeeper
from mcpd.supervise.cleanup.ledger import Ledger, new_daemon_id
from mcpd.supervise.process import Child, Scope
from mcpd.supervise.reaper import Reaper


async def main(state_dir: str, scope: Scope, *commands: str) -> None:
    daemon_id = new_daemon_id()
    ledger = Ledger(state_dir, daemon_id)
    reaper = Reaper(daemon_id, on_escape=ledger.save)
    reaper.start()
    guardian = GuardianKeeper(
        ledger.path, reaper, on_trouble=lambda text: print(text, file=sys.stderr)
    )
    guardian.start()
    children: list[Child] = []
    for number, command in enumerate(commands):
        tag = f"{daemon_id}:server{number}:1"
        launch = spawn.prepare("sh", ["-c", command], env={}, cwd="/", tag=tag)
        child = reaper.register(spawn.spawn(launch, tag=tag, scope=scope))
        ledger.record(child, f"server{number}", 1)
        children.append(child)
    told = {
        "id": daemon_id,
        "guardian": guardian.pid,
        "children": [child.pid for child in children],
    }
    print(json.dumps(told), flush=True)
    while True:
        line = await asyncio.to_thread(sys.stdin.readline)
        if line == "look\n":
            await reaper.scan_trees()
            print("looked", flush=True)
        elif line == "guardian\n":
            print(guardian.pid, flush=True)
        else:
            break
    stops = (ladder.stop(child, close_stdin=lambda: None, grace=0.1) for child in children)
    await asyncio.gather(*stops)
    await guardian.farewell()
    ledger.close()
    reaper.close()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
