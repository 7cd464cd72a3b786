"""One call of a legacy client whose modern server asks for input before it answers."""

from __future__ import annotations

from mcpd.core.facts import Failure
from mcpd.core.interface.context import Timer
from mcpd.core.interface.failures import no_room, with_details
from mcpd.core.mcp.input_required import InputRequired
from mcpd.core.questions.requests_to_clients import RequestToClient
from mcpd.core.requests.inflight import Outcome, UpstreamRequest
from mcpd.core.upstream.upstream import Upstream


class InputLoop:
    """One call of a legacy client whose server asks. ``params`` are those of the first round."""

    def __init__(self, upstream: Upstream, leg: UpstreamRequest) -> None:
        self.upstream = upstream
        self.leg = leg
        self.params = leg.params
        self.rounds = 0
        self.waits = 0
        """Rounds in a row in which the client was asked nothing."""
        self._kept_bytes = 0
        self.begin()

    @property
    def open(self) -> int:
        """Questions of the round, until it ends."""
        return len(self.methods)

    def begin(self, wanted: InputRequired | None = None) -> None:
        """Begin a round: nothing has been answered."""
        self.methods = {} if wanted is None else {k: m for k, (m, _) in wanted.requests.items()}
        self.state = None if wanted is None else wanted.state
        self.asked: list[RequestToClient] = []
        self.responses: dict[str, bytes] = {}
        self.timer: Timer | None = None

    def end(self, outcome: Outcome) -> None:
        """End the call: its client has said no, or cannot be asked."""
        self.upstream.calls.end(self.leg, outcome)

    def keep(self, size: int) -> Failure | None:
        """Count what is kept of a round, or return why there is no room for it."""
        kept = self.leg.kept
        if kept is not None and kept.share is not None and not kept.grow(size):
            failure = no_room(kept.share, size, server=self.upstream.entry.name)
            return with_details(failure, outcome_unknown=True)
        self._kept_bytes += size
        return None

    def keep_instead(self, size: int) -> None:
        """Count this many bytes instead of what is kept of the round."""
        if self.leg.kept is not None:
            self.leg.kept.add(size - self._kept_bytes)
        self._kept_bytes = size
