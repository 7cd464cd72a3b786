"""Whether a client runs that rewrites its file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcpd.onboarding.clients.client import Client


def process_of(client: Client, env: Mapping[str, str] = os.environ) -> int | None:
    """Return the process id of a client that runs for this home directory, or ``None``.

    Only clients that write their file from memory are looked for.
    """
    if not client.rewrites:
        return None
    import psutil  # type: ignore[import-untyped]  # takes a while

    for process in psutil.process_iter():
        try:
            if process.uids().real != os.geteuid():
                continue
            words = [process.name(), *map(os.path.basename, process.cmdline()[:2])]
            if not set(client.rewrites).isdisjoint(words):
                home = process.environ().get("HOME")
                if home == env.get("HOME"):
                    return int(process.pid)
        except psutil.Error:  # it has ended
            continue
    return None
