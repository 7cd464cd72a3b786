"""What authorises the requests to a remote server."""

from __future__ import annotations

from typing import Protocol

import msgspec

from mcpd.core.facts import Failure


class Refused(msgspec.Struct, frozen=True):
    """A response that says that the request was not authorised.

    ``challenge`` is the value of ``WWW-Authenticate``, empty without one.
    """

    status: int
    challenge: str = ""


class CannotAuthorize(Exception):
    """Requests cannot be authorised: ``login_required``, ``unauthorized`` or ``forbidden``."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Authorizer(Protocol):
    """Authorises all requests of one remote server."""

    async def headers(self) -> dict[str, str]:
        """Return the headers of a request, refreshed where that is due.

        Raises :class:`CannotAuthorize` where a person must do something first.
        """

    async def refused(self, sent: dict[str, str], refused: Refused) -> None:
        """Return when the request may be sent once more, with other ``headers`` than ``sent``.

        Requests that are refused at the same time cause one refresh. Raises
        :class:`CannotAuthorize` where nothing helps.
        """

    def describe(self) -> str:
        """Return how requests are authorised, as ``status`` shows it: never a secret."""
