"""Which era a process speaks: what it is asked first, and what its answer, silence or death means.

One attempt to start may take several processes. Where the configuration names the era there is
nothing to find out. Else it begins with what the last handshake was, if that is known, and with
a probe if it is not::

    RECALLED legacy ── anything but its answer ─▶ new process: PROBE
    RECALLED modern ── an error ─▶ FALLBACK; death ─▶ new process: PROBE; silence ─▶ new: GUESS
    PROBE           ── an error ─▶ FALLBACK; death, silence ─▶ new process: GUESS
    FALLBACK        ── "modern only" ─▶ new process: CORRECTED; death ─▶ new process: GUESS
    GUESS           ── "modern only" ─▶ new process: CORRECTED

No arrow leads back, so that finding the era takes at most four processes. A server that refuses
``initialize`` for another reason is offered less (see ``core.mcp.offer``): the same process, or a
new one where that ends. A server that refuses ``server/discover`` and names its revision as one
that it supports is asked once more. Source: MCP 2026-07-28, basic/transports/stdio and
basic/versioning; Python SDK servers up to 1.8.1 die of the probe.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp import codes, legacy, modern
from mcpd.core.mcp.introduction import HandshakeRefused, Introduction
from mcpd.core.mcp.offer import FULL, Capabilities, Offer, Offers, Verdict, supported_versions
from mcpd.core.mcp.versions import MODERN, Era
from mcpd.core.wire import envelope
from mcpd.redact import Redactor

_SAID_LENGTH: Final = 500
"""How much of a server's error is quoted."""

_MODERN_CODES: Final = (b"-32020", b"-32021")


class Step(Enum):
    """Where an attempt is: what the process has been asked, and why."""

    GIVEN = "given"  # what the configuration says
    RECALLED = "recalled"  # what the last handshake was
    PROBE = "probe"  # `server/discover`, for nothing is known
    FALLBACK = "fallback"  # `initialize`, where the same process refused `server/discover`
    GUESS = "guess"  # `initialize` first, for another process said nothing to `server/discover`
    CORRECTED = "corrected"  # `server/discover`, for another process wants no `initialize`


class Silence(Enum):
    """When no answer is an answer."""

    NEVER = "never"  # only the start-up time is over some day
    LATE = "late"  # at half of the start-up time
    SOON = "soon"  # then, or soon after the process has read the question


class Ask(msgspec.Struct, frozen=True):
    """Ask the process in the manner of this era; its death is an answer if it ``may_die``.

    ``offer`` is what ``initialize`` says; ``server/discover`` needs none.
    """

    era: Era
    may_die: bool
    silence: Silence
    offer: Offer = FULL


class Again(msgspec.Struct, frozen=True):
    """Kill the process and start another, which ``EraDetection.up`` has a question for."""

    reason: str


class Use(msgspec.Struct, frozen=True):
    """The handshake is done."""

    introduction: Introduction


class Refuse(msgspec.Struct, frozen=True):
    """The process cannot be used, and no other would be different."""

    message: str


Move = Ask | Again | Use | Refuse


class EraDetection:
    """The decisions of one attempt to start, across its processes.

    ``verdict`` is how the last handshake succeeded, ``None`` once it proved wrong.
    """

    def __init__(
        self,
        server: str,
        era: Era | None,
        verdict: Verdict | None,
        capabilities: Capabilities,
        redactor: Redactor = Redactor.NONE,
    ) -> None:
        """``era`` is the one that the configuration names; it leaves no era to find out.

        ``capabilities`` are what ``initialize`` declares, unless the server refuses them.
        """
        self._redactor = redactor
        self.verdict = verdict
        self._server = server
        self._capabilities = capabilities
        self._offers = Offers(capabilities)
        self._has_restarted = False  # with the offer that is made
        self._has_repeated = False  # `server/discover`, to a server that named its revision
        if era is not None:
            self._step, self._era = Step.GIVEN, era
        elif verdict is not None:
            self._step, self._era = Step.RECALLED, verdict.era
        else:
            self._step, self._era = Step.PROBE, Era.MODERN
        if verdict is not None and verdict.era is self._era:
            self._offers = Offers(capabilities, verdict.offer)

    @property
    def step(self) -> Step:
        """Return where the attempt is."""
        return self._step

    def up(self) -> Ask:
        """Return what a process is asked, the first of the attempt or the next."""
        is_reduced = self._era is Era.LEGACY and self._offers.offer != FULL
        may_die = self._step in (Step.RECALLED, Step.PROBE, Step.FALLBACK) or is_reduced
        silence = Silence.NEVER
        if self._step is Step.PROBE:
            silence = Silence.SOON
        elif self._step is Step.RECALLED and self._era is Era.MODERN:
            silence = Silence.LATE
        return Ask(self._era, may_die, silence, self._offers.offer)

    def answered(self, result: Raw | bytes | None, error: Raw | bytes | None) -> Move:
        """Decide after the process has answered, with a result or with an error."""
        names_modern = False
        if result is not None:
            read = legacy.read_handshake if self._era is Era.LEGACY else modern.read_discover
            try:
                introduction = read(result, self._server)
            except HandshakeRefused as refusal:
                why = f"{self._server} {refusal}"
            else:
                is_legacy = introduction.era is Era.LEGACY
                self.verdict = Verdict(introduction.era, self._offers.offer if is_legacy else FULL)
                return Use(introduction)
        else:
            why = f"{self._server} answered the handshake with an error: {self._said(error)}"
            names_modern = _is_modern_error(error, of_initialize=self._era is Era.LEGACY)
        if self._era is Era.MODERN and _names_modern(error) and not self._has_repeated:
            self._has_repeated = True
            return self.up()
        match self._step:
            case Step.RECALLED if self._era is Era.LEGACY:
                return self._again(Step.PROBE, why)
            case Step.RECALLED | Step.PROBE if not names_modern:
                self.verdict = None
                self._to(Step.FALLBACK)
                self._offers.prefer(supported_versions(error))
                return self.up()
            case Step.FALLBACK | Step.GUESS if names_modern:
                return self._again(Step.CORRECTED, why)
        if self._era is Era.MODERN or error is None:
            return Refuse(why)
        if self.verdict is not None:  # what it once accepted is no hint any more
            self.verdict = None
            if self._offers.offer != FULL:
                self._offers = Offers(self._capabilities)
                return self.up()
        self._has_restarted = False
        return self.up() if self._offers.advance(error) else Refuse(why)

    def silent(self) -> Again | None:
        """Decide when the process has had its time; return ``None`` where silence means nothing."""
        if self.up().silence is Silence.NEVER:
            return None
        return self._again(Step.GUESS, f"{self._server} did not answer server/discover")

    def died(self) -> bool:
        """Tell whether another process is asked after one that ended instead of answering."""
        match self._step:
            case Step.RECALLED:
                self._again(Step.PROBE, "")
            case Step.PROBE | Step.FALLBACK if self._offers.offer == FULL:
                self._again(Step.GUESS, "")
            case _ if self._era is Era.LEGACY and self._offers.offer != FULL:
                # it may have ended because of what it refused before
                if self._has_restarted:
                    self.verdict = None
                    return False
                self._has_restarted = True
            case _:
                return False
        return True

    def _again(self, step: Step, reason: str) -> Again:
        self.verdict = None
        self._offers = Offers(self._capabilities)
        self._to(step)
        return Again(reason)

    def _said(self, error: Raw | bytes | None) -> str:
        return self._redactor.excerpt(error or b"null", _SAID_LENGTH)

    def _to(self, step: Step) -> None:
        self._step = step
        self._era = Era.MODERN if step in (Step.PROBE, Step.CORRECTED) else Era.LEGACY


def _is_modern_error(error: Raw | bytes | None, *, of_initialize: bool) -> bool:
    """Tell whether an error can only come of a server that speaks a modern revision of ours.

    Servers of old use all codes there are, so to ``server/discover`` the code alone is no proof.
    """
    if _names_modern(error):
        return True
    members = (envelope.object_of(error) if error is not None else None) or {}
    code = bytes(members.get("code", Raw(b"null")))
    if code == b"%d" % codes.UNSUPPORTED_VERSION:
        return of_initialize and not supported_versions(error)
    return code in _MODERN_CODES


def _names_modern(error: Raw | bytes | None) -> bool:
    """Tell whether an error names a modern revision of ours as one that the server supports."""
    return any(version in MODERN for version in supported_versions(error))
