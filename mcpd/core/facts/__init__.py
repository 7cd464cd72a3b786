"""Facts: what happened, as values. Logs and events are made from them.

Import facts from here: each of the modules has those of one theme, and ``Fact`` is any of them.
"""

from __future__ import annotations

import msgspec

from mcpd.core.facts.approvals import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalOver,
    AskedCall,
    ClientDeclines,
    Rule,
    RuleForgotten,
    RuleLapsed,
    RuleRemembered,
    RuleUsed,
)
from mcpd.core.facts.calls import FLAGGED, LATE_YES, QUEUED, RETRIED, SANITISED, CallEnded
from mcpd.core.facts.definitions import (
    ChangedDefinition,
    DefinitionsAccepted,
    DefinitionsChanged,
    DefinitionsFound,
    DefinitionsPinned,
    DefinitionsSanitised,
    DefinitionVolatile,
    ResultFlagged,
)
from mcpd.core.facts.failure import Failure
from mcpd.core.facts.servers import (
    BudgetUsedUp,
    CatalogChanged,
    LoginRequired,
    SecretUnavailable,
    ServerBackoff,
    ServerCrashed,
    ServerFailed,
    ServerLogged,
    ServerNoise,
    ServerOverMemory,
    ServerReady,
    ServerStarting,
    ServerStopped,
    ServerStopping,
    ServerWarning,
    SignedIn,
    StrayEnded,
)
from mcpd.core.facts.sessions import (
    FrameRejected,
    QuestionAnswered,
    QuestionAsked,
    SessionClosed,
    SessionNamed,
    SessionOpened,
)
from mcpd.ids import SessionId

__all__ = [
    "FLAGGED",
    "LATE_YES",
    "QUEUED",
    "RETRIED",
    "SANITISED",
    "ApprovalAnswered",
    "ApprovalAsked",
    "ApprovalOver",
    "AskedCall",
    "BudgetUsedUp",
    "CallEnded",
    "CatalogChanged",
    "ChangedDefinition",
    "ClientDeclines",
    "DefinitionVolatile",
    "DefinitionsAccepted",
    "DefinitionsChanged",
    "DefinitionsFound",
    "DefinitionsPinned",
    "DefinitionsSanitised",
    "Fact",
    "FactsOmitted",
    "Failure",
    "FrameRejected",
    "LoginRequired",
    "QuestionAnswered",
    "QuestionAsked",
    "ResultFlagged",
    "Rule",
    "RuleForgotten",
    "RuleLapsed",
    "RuleRemembered",
    "RuleUsed",
    "SecretUnavailable",
    "ServerBackoff",
    "ServerCrashed",
    "ServerFailed",
    "ServerLogged",
    "ServerNoise",
    "ServerOverMemory",
    "ServerReady",
    "ServerStarting",
    "ServerStopped",
    "ServerStopping",
    "ServerWarning",
    "SessionClosed",
    "SessionNamed",
    "SessionOpened",
    "SignedIn",
    "StrayEnded",
]


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
