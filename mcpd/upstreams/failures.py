"""Failures of starts that are the same whatever carries a server."""

from __future__ import annotations

import msgspec

from mcpd.core.facts import Failure
from mcpd.redact import Redactor


def no_workspace(server: str) -> Failure:
    """Return the failure of a server of a workspace whose session has none."""
    return Failure(
        kind="spawn_failed",
        message=f"{server} is started for a workspace, and there is none here",
        server=server,
        hint="use mcpctl in the project's directory; other clients attach with `cwd` or `roots`",
    )


def masked(failure: Failure, redactor: Redactor) -> Failure:
    """Return a failure without the secrets that a server's words, or a path, may hold."""

    def mask(value: object) -> object:
        if isinstance(value, str):
            return redactor.mask(value)
        return [mask(each) for each in value] if isinstance(value, list) else value

    return msgspec.structs.replace(
        failure,
        message=redactor.mask(failure.message),
        hint=None if failure.hint is None else redactor.mask(failure.hint),
        details={name: mask(value) for name, value in failure.details.items()},
    )


def is_clean_exit(failure: Failure | None) -> bool:
    """Return whether a server ended with exit status 0."""
    return failure is not None and failure.details.get("exit_code") == 0
