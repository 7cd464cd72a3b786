"""The first words with a process, and the processes that they may cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from msgspec import Raw

from mcpd.core.facts import Failure
from mcpd.core.interface.commands import Probing, StartOver, StartRefused
from mcpd.core.interface.context import Context, Timer
from mcpd.core.mcp import modern
from mcpd.core.mcp.introduction import Introduction
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.mcp.offer import Verdict, omitted_capabilities
from mcpd.core.mcp.versions import Era
from mcpd.core.requests.calls import Calls
from mcpd.core.upstream import own_info
from mcpd.core.upstream.era_detection import Again, Ask, EraDetection, Move, Refuse, Silence, Use

SILENT_S: Final = 3.0
"""Seconds from when a process has read the probe, or has written anything, to its silence."""

_QUESTIONS: Final = {
    Era.LEGACY: CLIENT_REQUESTS["initialize"],
    Era.MODERN: CLIENT_REQUESTS["server/discover"],
}


class Handshake:
    """Introduces us to each process of a slot, in the era that it speaks.

    ``verdict`` is how the last handshake succeeded; it is kept from one process to the next, and
    forgotten when it proves wrong.
    """

    def __init__(
        self, ctx: Context, calls: Calls, introduced: Callable[[Introduction], None]
    ) -> None:
        """``introduced`` is called when a process has said what it is."""
        self.verdict: Verdict | None = calls.entry.verdict
        self._ctx = ctx
        self._calls = calls
        self._introduced = introduced
        self._opening: EraDetection | None = None
        """The attempt to start, while it lasts: it may take several processes."""
        self._asked: Ask | None = None
        self._may_die = False  # as the outside was told
        self._is_ending = False  # the process, because we asked for another
        self._late: Timer | None = None
        self._soon: Timer | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which of our capabilities the last server that accepted us had refused."""
        verdict = self.verdict
        if verdict is None:
            return ()
        declared = own_info.declared_to_legacy(self._calls.ours, self._calls.entry)
        return omitted_capabilities(declared, verdict.offer.omission)

    def up(self) -> None:
        """A process is there, the first of an attempt or the next."""
        entry = self._calls.entry
        if self._opening is None:
            declared = own_info.declared_to_legacy(self._calls.ours, entry)
            self._opening = EraDetection(
                entry.name, entry.era, self.verdict, declared, entry.redactor
            )
        self._is_ending = False
        self._ask(self._opening.up())
        if not entry.is_fetched:  # else to kill it before it has read anything undoes what it did
            self._count_silence()

    def probe_read(self) -> None:
        """The process has read what it was asked, or has written something."""
        if self._late is None:
            self._count_silence()
        if self._soon is None and self._asked is not None and self._asked.silence is Silence.SOON:
            self._soon = self._ctx.after(SILENT_S, self._was_silent)

    def _count_silence(self) -> None:
        if self._asked is not None and self._asked.silence is not Silence.NEVER:
            half = self._calls.entry.startup_timeout / 2
            if half > 0:
                self._late = self._ctx.after(half, self._was_silent)

    def down(self, failure: Failure, *, is_planned: bool, comes_back: bool) -> None:
        """The process is gone; the attempt goes on if it was to die, or died of the question."""
        opening, is_ending, may_die = self._opening, self._is_ending, self._may_die
        self._wait_no_more()
        self._is_ending = self._may_die = False
        if opening is None:
            return
        if is_planned and comes_back:
            if is_ending:
                return
            if may_die and failure.kind == "server_crashed" and opening.died():
                return
        self.verdict = opening.verdict
        self._opening = None

    def _ask(self, ask: Ask) -> None:
        ours = self._calls.ours
        self._asked = ask
        self._say(may_die=ask.may_die)
        if ask.era is Era.LEGACY:
            params = own_info.handshake_params(ours, self._calls.entry, ask.offer)
        else:
            params = modern.discover_params(ours)
        self._calls.era = Era.LEGACY  # until it is known: translate nothing
        self._calls.own_requests.ask(_QUESTIONS[ask.era], params, self._answered)

    def _answered(self, result: Raw | bytes | None, error: Raw | bytes | None) -> None:
        if self._opening is not None:
            self._wait_no_more()
            self._follow(self._opening.answered(result, error))

    def _was_silent(self) -> None:
        self._wait_no_more()
        move = self._opening.silent() if self._opening is not None else None
        if move is not None:
            self._follow(move)

    def _follow(self, move: Move) -> None:
        match move:
            case Ask():
                self._ask(move)
            case Again():
                self._is_ending = True
                self._ctx.emit(StartOver(self._calls.slot, move.reason))
            case Use():
                self._end()
                self._introduced(move.introduction)
            case Refuse():
                self._end()
                name = self._calls.entry.name
                hint = f"see `mcpctl logs {name}`"
                failure = Failure("handshake_failed", move.message, name, True, hint)
                self._ctx.emit(StartRefused(self._calls.slot, failure))
            case _:
                assert_never(move)

    def _end(self) -> None:
        self._say(may_die=False)
        if self._opening is not None:
            self.verdict = self._opening.verdict
            self._opening = None

    def _say(self, *, may_die: bool) -> None:
        if may_die != self._may_die:
            self._may_die = may_die
            self._ctx.emit(Probing(self._calls.slot, may_die))

    def _wait_no_more(self) -> None:
        for timer in (self._late, self._soon):
            if timer is not None:
                timer.cancel()
        self._late = self._soon = None
