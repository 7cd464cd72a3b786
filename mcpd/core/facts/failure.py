"""Why a request failed."""

from __future__ import annotations

from typing import Any

import msgspec


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
