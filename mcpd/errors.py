"""Every exception raised on purpose, one tree, each with a stable slug.

McpdError
├── ConfigError          the user: a configuration that cannot be used
├── PathRefused          the user: a directory or socket that is not private or not ours
├── AlreadyRunning       nobody: another daemon holds the lock
├── DaemonUnavailable    nobody just now: no daemon, or one that does not respond
├── RequestFailed        the daemon answered a request of ours with an error
├── SpawnFailed          the user: a command that cannot be started
└── IllegalTransition    ourselves: a state machine was driven wrongly
"""

from __future__ import annotations

TYPE_CHECKING = False  # without an import: the bridge loads this, and typing takes 3 ms
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self


DOOMED = (2, 73, 78, 127)
"""Statuses of a start that will end so each time: see ``mcpd.cli``, and 127 for no ``mcpd``."""

PASSING = (
    "absent", "refused", "no_socket", "gone", "unresponsive", "start_timeout", "stopping", "stuck",
)  # fmt: skip
"""The kinds of silence that end by themselves, or with the next client that starts a daemon."""


class McpdError(Exception):
    """Base class.

    ``slug`` is stable: it is the ``kind`` of an error on the socket and what scripts match on.
    The message is for people and may change; ``hint`` says what to type next.
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
    """No daemon answers on the socket; ``details["why"]`` says which kind of silence it is."""

    slug = "no_daemon"

    @property
    def is_retryable(self) -> bool:
        """Whether the same may succeed later, with nothing changed by hand."""
        if self.details.get("why") == "start_failed":
            return "errno" not in self.details and self.details.get("exit_code") not in DOOMED
        return self.details.get("why") in PASSING


UNSAID = "an error without a message"


class RequestFailed(McpdError):
    """The daemon answered a request with a JSON-RPC error."""

    slug = "request_failed"

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.reporter: str | None = None  # the server whose own error it is, where that is known

    @classmethod
    def of(cls, error: Any) -> Self:
        """Read an ``error`` member, whatever it is."""
        if not isinstance(error, dict):
            return cls(-32603, UNSAID)
        code, message = error.get("code"), error.get("message")
        if not isinstance(message, str) or not message.strip():
            message = UNSAID
        return cls(code if isinstance(code, int) else -32603, message, error.get("data"))

    @property
    def kind(self) -> str | None:
        """The product's name of the error, where it is one of ours."""
        kind = self.data.get("kind") if isinstance(self.data, dict) else None
        return kind if isinstance(kind, str) else None


class SpawnFailed(McpdError):
    """A command that could not be started; ``details`` has ``errno`` and ``searched``."""

    slug = "spawn_failed"


class IllegalTransition(McpdError):
    """A state machine was given a trigger that its state does not know: a bug of ours."""

    slug = "internal"
