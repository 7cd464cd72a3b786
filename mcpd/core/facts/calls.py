"""The fact that a call ended, for the audit."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from mcpd.ids import SessionId
from mcpd.principal import Principal

RETRIED: Final = 1
"""Flag of a call that was sent to a second process."""
SANITISED: Final = 2
"""Flag of a call whose result was changed."""
FLAGGED: Final = 4
"""Flag of a call whose result has what ``sanitise_results`` looks for."""
LATE_YES: Final = 8
"""Flag of a call that an earlier yes let through."""
QUEUED: Final = 16
"""Flag of a call that waited for its turn, or for room."""


class CallEnded(msgspec.Struct, frozen=True, gc=False):
    """A call, a read or a prompt ended. The mux emits it as a command, if calls are recorded.

    ``outcome`` is ``answered``, ``error`` (the server's, or a tool's), ``failed``, ``timed_out``,
    ``cancelled``, ``refused`` or ``lost``; ``kind`` is the kind of our failure, if it was one.
    ``arguments`` and ``result`` refer to the frames that they came in, as JSON; an error is a
    result, too. ``server`` is empty for a request that reached none. ``flags`` is a sum of the
    constants above, ``approval`` the number of the question that let it through, 0 for none.
    """

    session: SessionId
    principal: Principal
    client: str | None
    server: str
    method: str
    name: str | None
    """That of the tool or the prompt; a resource has none."""
    outcome: str
    kind: str | None
    duration_s: float
    wait_s: float
    """Seconds until it was sent; all of them for a call that was not."""
    request_bytes: int
    result_bytes: int
    arguments: Raw | bytes | None = None
    result: Raw | bytes | None = None
    pin: bytes | None = None
    approval: int = 0
    flags: int = 0
