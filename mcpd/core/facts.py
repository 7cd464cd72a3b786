"""Facts: what happened, as values. Logs and events are made from them. Names have the units."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from mcpd.ids import SessionId, SlotId
from mcpd.principal import Principal


class Failure(msgspec.Struct, frozen=True):
    """Why a request failed, for the client that made it.

    ``kind`` is one of the product's error kinds, ``details`` further members of the error's data.
    """

    kind: str
    message: str
    server: str | None = None
    is_retryable: bool = False
    hint: str | None = None
    details: dict[str, Any] = {}


class ServerStarting(msgspec.Struct, frozen=True):
    """A process is about to be spawned."""

    server: str
    slot: SlotId
    generation: int


class ServerReady(msgspec.Struct, frozen=True):
    """The handshake is done and the tools are listed."""

    server: str
    slot: SlotId
    generation: int
    pid: int | None
    """``None`` for a server that is not a process."""
    duration_s: float
    era: str
    protocol_version: str


class ServerCrashed(msgspec.Struct, frozen=True):
    """A process ended by itself, or could not be used."""

    server: str
    slot: SlotId
    generation: int
    failure: Failure


class ServerBackoff(msgspec.Struct, frozen=True):
    """The next start waits for ``delay_s``, after ``failures`` in a row."""

    server: str
    slot: SlotId
    delay_s: float
    failures: int


class ServerFailed(msgspec.Struct, frozen=True):
    """The server crashed too often and is given up, until a user starts it."""

    server: str
    slot: SlotId
    failure: Failure


class LoginRequired(msgspec.Struct, frozen=True):
    """Somebody must sign in before the server can be used."""

    server: str
    slot: SlotId
    failure: Failure


class ServerStopping(msgspec.Struct, frozen=True):
    """A process is being stopped."""

    server: str
    slot: SlotId
    reason: str


class ServerStopped(msgspec.Struct, frozen=True):
    """A process and its whole process tree are gone."""

    server: str
    slot: SlotId
    reason: str
    step: str | None = None


class SignedIn(msgspec.Struct, frozen=True):
    """Somebody has signed in to a server; ``until`` is RFC 3339, where that is known."""

    server: str
    issuer: str
    until: str | None


class SecretUnavailable(msgspec.Struct, frozen=True):
    """A server was not started: a secret that its entry names cannot be used.

    ``reason`` is ``missing``, ``unusable``, ``keyring_locked`` or ``keyring_unavailable``.
    """

    server: str
    name: str
    reason: str
    message: str


class ServerOverMemory(msgspec.Struct, frozen=True):
    """A process tree uses more memory than its entry allows."""

    server: str
    slot: SlotId
    memory_bytes: int
    limit_bytes: int
    is_busy: bool
    """Whether the server has pending requests; if not, it is restarted at once."""


class StrayEnded(msgspec.Struct, frozen=True):
    """An orphaned process of a server that is gone was found, and is being ended."""

    pid: int


class CatalogChanged(msgspec.Struct, frozen=True):
    """A list of a server has changed."""

    server: str
    kind: str
    count: int


class ChangedDefinition(msgspec.Struct, frozen=True):
    """One definition that is not what was approved."""

    kind: str
    """``tool``, ``prompt``, ``template`` or ``instructions``."""
    name: str
    state: str
    """``changed``, ``new``, ``renamed``, ``gone`` or, again, ``approved``."""
    parts: tuple[str, ...] = ()
    """Which parts have changed: ``text``, ``schema``, ``hints``, ``output``."""


class DefinitionsPinned(msgspec.Struct, frozen=True):
    """What a server listed first counts as approved. ``after`` says what came before, if any."""

    server: str
    kind: str
    count: int
    after: str | None = None


class DefinitionsChanged(msgspec.Struct, frozen=True):
    """Definitions of a server are not what was approved; or they are again."""

    server: str
    items: tuple[ChangedDefinition, ...]


class DefinitionsAccepted(msgspec.Struct, frozen=True):
    """A person has approved definitions of a server."""

    server: str
    items: tuple[ChangedDefinition, ...]


class DefinitionVolatile(msgspec.Struct, frozen=True):
    """A definition changes all the time: its changes are not told any more."""

    server: str
    kind: str
    name: str


class DefinitionsFound(msgspec.Struct, frozen=True):
    """Something that attacks are made of was found in the definitions of a server."""

    server: str
    findings: tuple[dict[str, Any], ...]
    """Each with ``kind``, ``name``, ``class``, ``weight`` and ``place``."""


class DefinitionsSanitised(msgspec.Struct, frozen=True):
    """What cannot be seen was removed from the definitions of a server."""

    server: str
    notices: tuple[dict[str, Any], ...]
    """Each with ``kind``, ``name``, ``class`` and ``count``."""


class ResultFlagged(msgspec.Struct, frozen=True):
    """The result of a call has characters that cannot be seen; ``is_clean``: it had."""

    server: str
    tool: str | None
    classes: tuple[str, ...]
    is_clean: bool = False


class ServerNoise(msgspec.Struct, frozen=True):
    """A server wrote a line on stdout that is not a valid message."""

    server: str
    reason: str
    text: str
    is_first: bool


class ServerWarning(msgspec.Struct, frozen=True):
    """A warning about a server, such as a violation of the protocol with little effect."""

    server: str
    text: str


class ServerLogged(msgspec.Struct, frozen=True):
    """A server sent a log message that belongs to no session."""

    server: str
    level: str
    text: str


class SessionOpened(msgspec.Struct, frozen=True):
    """A connection became a session."""

    session: SessionId
    server: str | None
    client: str | None
    principal: str = "local"


class SessionNamed(msgspec.Struct, frozen=True):
    """The client of a session has sent its name for the first time."""

    session: SessionId
    server: str | None
    client: str


class SessionClosed(msgspec.Struct, frozen=True):
    """A session ended."""

    session: SessionId
    server: str | None
    reason: str
    client: str | None = None
    principal: str = "local"


class FrameRejected(msgspec.Struct, frozen=True):
    """A client sent an invalid message, and got an error from mcpd."""

    session: SessionId
    reason: str
    client: str | None = None


class QuestionAsked(msgspec.Struct, frozen=True):
    """A client is asked what a server wants to know; told only where calls are recorded.

    ``method`` is that of the server's request, as ``sampling/createMessage``.
    """

    server: str
    session: SessionId
    method: str


class QuestionAnswered(msgspec.Struct, frozen=True):
    """A question that a client was asked is over; told only where calls are recorded.

    ``outcome`` is ``answered``, ``error`` (the client's), or ``none``: no answer came.
    """

    server: str
    session: SessionId
    method: str
    outcome: str


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


class BudgetUsedUp(msgspec.Struct, frozen=True):
    """A server has used up what it may use of something today; told once a day."""

    server: str
    limit: str
    """The key of the entry that says how much."""
    most: int


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


class FactsOmitted(msgspec.Struct, frozen=True):
    """A peer caused more facts of one kind within a second than are reported one by one.

    ``kind`` is the name of their type, ``count`` how many were left out. The peer is a server or a
    session.
    """

    kind: str
    count: int
    server: str | None = None
    session: SessionId | None = None


Fact = (
    ServerStarting
    | ServerReady
    | ServerCrashed
    | ServerBackoff
    | ServerFailed
    | LoginRequired
    | ServerStopping
    | ServerStopped
    | SignedIn
    | SecretUnavailable
    | ServerOverMemory
    | StrayEnded
    | CatalogChanged
    | DefinitionsPinned
    | DefinitionsChanged
    | DefinitionsAccepted
    | DefinitionVolatile
    | DefinitionsFound
    | DefinitionsSanitised
    | ResultFlagged
    | ServerNoise
    | ServerWarning
    | ServerLogged
    | SessionOpened
    | SessionNamed
    | SessionClosed
    | FrameRejected
    | BudgetUsedUp
    | ApprovalAsked
    | ApprovalAnswered
    | ApprovalOver
    | RuleRemembered
    | RuleForgotten
    | RuleLapsed
    | RuleUsed
    | ClientDeclines
    | FactsOmitted
    | QuestionAsked
    | QuestionAnswered
)
