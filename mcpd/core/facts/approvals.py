"""Facts of questions whether calls may run, and of the answers that are remembered."""

from __future__ import annotations

import msgspec

from mcpd.ids import SessionId


class AskedCall(msgspec.Struct, frozen=True):
    """A question whether a call may run, and what there is to know of the call.

    ``session`` and ``principal`` say whose call it is, ``pin`` which definition the tool had.
    ``definition`` is that as the server wrote it; ``before`` is another one, for which somebody
    has said yes for good. ``arguments`` are JSON as they came.
    """

    number: int
    session: SessionId
    principal: str
    client: str | None
    version: str | None
    server: str
    identity: str
    """A digest of what is started, or reached."""
    tool: str
    pin: bytes
    reason: str
    arguments: bytes
    shown_all: bool = True
    """Whether the client's form has all of the arguments."""
    asked_in: tuple[str, ...] = ()
    """Where it is asked: ``client``, ``listener``, ``call``."""
    age_s: float = 0.0
    expires_s: float = 0.0
    """Seconds until nobody can answer it any more."""
    waits: bool = False
    """Whether the call waits for the answer."""
    attached: str | None = None
    """What the connection called itself when it attached."""
    client_pid: int | None = None
    """The process that attached, as it says itself."""
    of_call: bool = False
    """Whether the connection that makes the call answers questions itself (``mcpd/call``)."""
    definition: bytes | None = None
    before: bytes | None = None

    @property
    def id(self) -> str:
        """Return what people call it."""
        return f"a{self.number}"


class Rule(msgspec.Struct, frozen=True):
    """An answer that is remembered. ``session`` is 0 where it holds for all of its principal."""

    id: int
    answer: str
    """``session``, ``1h``, ``always`` or ``no``."""
    principal: str
    server: str
    identity: str
    tool: str
    pin: bytes
    by: str
    """Where it was given, and by which program."""
    session: SessionId = SessionId(0)
    definition: bytes | None = None
    """The tool's definition for which it was given."""
    digest: bytes | None = None
    """The arguments that a ``no`` is about; ``None``: all."""
    until: float | None = None
    """When it ends, in monotonic seconds."""
    lapsed: str = ""
    """Why it does not hold any more."""

    @property
    def is_lasting(self) -> bool:
        """Whether it outlives its session, and the daemon."""
        return not self.session


class ApprovalAsked(msgspec.Struct, frozen=True):
    """Somebody is asked whether a call may run; once more if it is called again meanwhile."""

    question: AskedCall


class ApprovalAnswered(msgspec.Struct, frozen=True):
    """Somebody has answered.

    ``surface`` is where: ``client``, ``control``, ``call``. ``applies`` is ``now``, or
    ``next_call`` where no call waits.
    """

    question: AskedCall
    answer: str
    surface: str
    applies: str
    pid: int | None = None
    program: str | None = None


class ApprovalOver(msgspec.Struct, frozen=True):
    """A question can be answered no longer; ``how`` says why."""

    question: AskedCall
    how: str


class RuleRemembered(msgspec.Struct, frozen=True):
    """An answer is remembered."""

    rule: Rule


class RuleForgotten(msgspec.Struct, frozen=True):
    """An answer is remembered no longer; ``why`` says how that came."""

    rule: Rule
    why: str


class RuleLapsed(msgspec.Struct, frozen=True):
    """An answer does not hold any more: what it was given for has changed."""

    rule: Rule


class RuleUsed(msgspec.Struct, frozen=True):
    """A call was decided by an answer that is remembered."""

    rule: Rule


class ClientDeclines(msgspec.Struct, frozen=True):
    """A client refused a question sooner than a person can: it is asked no more."""

    session: SessionId
    client: str
