"""Whether a client runs that rewrites its file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcpd.onboarding.clients.client import Client

PROC = "/proc"


def process_of(client: Client, env: Mapping[str, str] = os.environ) -> int | None:
    """Return the process id of a client that runs for this home directory, or ``None``."""
    if not client.rewrites or not os.path.isdir(PROC):
        return None
    home = f"HOME={env.get('HOME', '')}".encode()
    for name in os.listdir(PROC):
        if name.isdecimal() and _is_it(f"{PROC}/{name}", client.rewrites, home):
            return int(name)
    return None


def _is_it(place: str, names: tuple[str, ...], home: bytes) -> bool:
    try:
        if os.stat(place).st_uid != os.geteuid():
            return False
        with open(f"{place}/comm", "rb") as file:
            known = {os.fsdecode(file.read().strip())}
        with open(f"{place}/cmdline", "rb") as file:
            known |= {os.path.basename(os.fsdecode(word)) for word in file.read().split(b"\0")[:2]}
        if known.isdisjoint(names):
            return False
        with open(f"{place}/environ", "rb") as file:
            return home in file.read().split(b"\0")
    except OSError:  # it has ended
        return False
