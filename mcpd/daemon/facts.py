"""Delivers facts to those that subscribed to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mcpd.core.facts import Fact
from mcpd.tasks import attempt

FactT = TypeVar("FactT", bound=Fact)

Subscriber = Callable[[Fact], None]


class Facts:
    """The facts of the daemon. Each is delivered at once, in the order of subscription.

    A subscriber that fails is logged, and keeps no other from its fact: one of them notes who may
    answer a question.
    """

    def __init__(self) -> None:
        self._all: list[Subscriber] = []
        self._by_kind: dict[type[Fact], list[Subscriber]] = {}

    def subscribe(self, subscriber: Subscriber) -> None:
        """Deliver every fact to ``subscriber``."""
        self._all.append(subscriber)

    def subscribe_to(self, kind: type[FactT], subscriber: Callable[[FactT], object]) -> None:
        """Deliver the facts of one kind to ``subscriber``, after those that get every fact."""
        self._by_kind.setdefault(kind, []).append(subscriber)  # type: ignore[arg-type]

    def publish(self, fact: Fact) -> None:
        """Deliver a fact."""
        for subscriber in self._all:
            attempt(subscriber, fact)
        for subscriber in self._by_kind.get(type(fact), ()):
            attempt(subscriber, fact)
