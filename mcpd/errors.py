"""The exceptions that mcpd raises, one tree, each with a stable slug.

McpdError
├── ConfigError          to be fixed by the user: a configuration that cannot be used
├── PathRefused          to be fixed by the user: a path that is not private or not ours
├── AlreadyRunning       no fault: another daemon holds the lock
├── DaemonUnavailable    temporary: no daemon, or one that does not respond
├── RequestFailed        the daemon answered a request with an error
├── SpawnFailed          to be fixed by the user: a command that cannot be started
└── IllegalTransition    a bug of mcpd: an invalid transition of a state machine
"""

from __future__ import annotations

TYPE_CHECKING = False  # without an import: the bridge loads this, and typing takes 3 ms
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self


DOOMED = (2, 73, 78, 127)
"""Exit statuses that every further start would have too: see ``mcpd.cli``; 127: no ``mcpd``."""

PASSING = (
    "absent", "refused", "no_socket", "gone", "unresponsive", "start_timeout", "stopping", "stuck",
)  # fmt: skip
"""Values of ``why`` that pass without a change by hand, or when a client starts a daemon."""


class McpdError(Exception):
    """Base class of all exceptions here.

    ``slug`` is stable: it is the ``kind`` of an error on the socket, and scripts match on it. The
    message is for people and may change; ``hint`` says what to type next.
    """

    slug: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class ConfigError(McpdError):
    """A configuration that cannot be used; the message names file, line and key."""

    slug = "config_invalid"


class PathRefused(McpdError):
    """A directory, lock or socket that is not private, not ours, or not what it should be."""

    slug = "denied"


class AlreadyRunning(McpdError):
    """Another daemon holds the lock; ``details["pid"]`` is its process id, or ``None``."""

    slug = "already_running"


class DaemonUnavailable(McpdError):
    """No daemon answers on the socket; ``details["why"]`` is the reason."""

    slug = "no_daemon"

    @property
    def is_retryable(self) -> bool:
        """Whether the same attempt may succeed later without a change by hand."""
        if self.details.get("why") == "start_failed":
            return "errno" not in self.details and self.details.get("exit_code") not in DOOMED
        return self.details.get("why") in PASSING


NO_MESSAGE = "an error without a message"


class RequestFailed(McpdError):
    """The daemon answered a request with a JSON-RPC error."""

    slug = "request_failed"

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.reporter: str | None = None  # the server that reported the error, if known

    @classmethod
    def of(cls, error: Any) -> Self:
        """Return the exception for an ``error`` member, which may be invalid."""
        if not isinstance(error, dict):
            return cls(-32603, NO_MESSAGE)
        code, message = error.get("code"), error.get("message")
        if not isinstance(message, str) or not message.strip():
            message = NO_MESSAGE
        return cls(code if isinstance(code, int) else -32603, message, error.get("data"))

    @property
    def kind(self) -> str | None:
        """The ``kind`` of an error of mcpd's own, otherwise ``None``."""
        kind = self.data.get("kind") if isinstance(self.data, dict) else None
        return kind if isinstance(kind, str) else None


class SpawnFailed(McpdError):
    """A command that could not be started; ``details`` has ``errno`` and ``searched``."""

    slug = "spawn_failed"


class IllegalTransition(McpdError):
    """A state machine got a trigger that its state does not allow: a bug of mcpd."""

    slug = "internal"
