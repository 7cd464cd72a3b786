"""Why a process could not be started, or why it ended, as clients are told."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import Final

from mcpd.core.facts import Failure
from mcpd.core.policy.runners import broken_cache, cache_remedy
from mcpd.errors import SpawnFailed
from mcpd.supervise.process import Child

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
"""Why a spawn fails for lack of a resource of the daemon's, which is not the server's fault."""


def is_shortage(error: SpawnFailed) -> bool:
    """Return whether a spawn failed for lack of a resource of the daemon's."""
    return error.details.get("errno") in SHORTAGES


def spawn_failure(server: str, error: SpawnFailed) -> Failure:
    """Return the failure of a server whose process could not be spawned."""
    details = dict(error.details)
    number = details.get("errno")
    if isinstance(number, int):
        details["errno"] = errno.errorcode.get(number, str(number))
    message = f"{server} cannot be started: {error.message}"
    return Failure("spawn_failed", message, server, number in SHORTAGES, error.hint, details)


def crash(
    server: str, child: Child, *, tail: Sequence[str], recent: Iterable[str], is_ready: bool
) -> Failure:
    """Return the failure of a server whose process ended or closed its pipes.

    ``tail`` is the end of its stderr, which the error shows. ``recent`` is a longer one, which is
    searched for a broken package cache.
    """
    how = child.describe_exit()
    if "signal" in how:
        what = f"was killed by {how['signal']}"
    elif "exit_code" in how:
        what = f"exited with status {how['exit_code']}"
    else:
        what = "closed its stdin or stdout, so it can serve nobody any more"
    when = "" if is_ready else " before it was ready"
    message, hint = f"{server} {what}{when}", f"mcpctl logs {server}"
    details = {**how, "stderr": list(tail)}
    cache = None if is_ready else broken_cache(recent)
    if cache is not None:
        message += f": something is missing in {cache}"
        hint = f"{hint}; {cache_remedy(cache, server)}"
        details["cache"] = cache
    return Failure("server_crashed", message, server, True, hint, details)
