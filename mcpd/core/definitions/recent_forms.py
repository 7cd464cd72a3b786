"""Forms that definitions have had lately: one with many of them changes all the time."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from mcpd.core.catalog.pins import Pin

FORMS: Final = 5
"""Distinct forms of one definition within ``FORMS_WITHIN`` after which it is volatile."""

FORMS_WITHIN: Final = 3600.0
"""Seconds."""


class RecentForms:
    """When each form of a definition of one server was first seen, in monotonic seconds."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, str], dict[str, float]] = {}

    def has_many(self, kind: str, name: str, pin: Pin, now: float) -> bool:
        """Note the form that a definition has; tell whether it has had too many lately."""
        forms = self._forms.setdefault((kind, name), {})
        if pin.hash and not pin.is_same:
            forms.setdefault(pin.hash, now)
        for each in [each for each, at in forms.items() if at < now - FORMS_WITHIN]:
            del forms[each]
        return len(forms) >= FORMS

    def keep_only(self, kind: str, names: Container[str]) -> None:
        """Forget definitions of a kind that are listed no more."""
        for gone in [each for each in self._forms if each[0] == kind and each[1] not in names]:
            del self._forms[gone]

    def clear(self) -> None:
        """Forget all forms: they were those of another command."""
        self._forms.clear()
