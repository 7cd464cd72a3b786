"""What the rules draw from, and how."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from tests.property.model.acting import Acting
from tests.property.model.peers import Client
from tests.property.model.wire import TASKS, Json

IDS: Final = [b"0", b"1", b"-1", b"9007199254740993", b'"1"', b'""', b'"a"', b'"\\u00e9\\ud800"']
TOKENS: Final = [None, b"0", b"1", b"3", b"1.5", b'"1"', b'"\\ud83d"', b"-0"]
KINDS: Final = ["legacy", "legacy", "legacy", "modern", "modern", "modern", "both"]
VERSIONS: Final = ["2025-11-25", "2025-03-26", "2025-06-18", "2025-11-25"]
SERVERS: Final = ["alpha", "beta", "gamma"]
NATURES: Final = ["legacy", "modern", "dual", "silent", "dying"]
EVERYTHING: Final[Json] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
CAN: Final[list[Json]] = [
    EVERYTHING,
    {"elicitation": {}},
    {},
    {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}, "tasks": {}},
    {"elicitation": {"url": {}}, "experimental": {"x": 1}},
    {"roots": {}},
    {"sampling": {}},
]
"""What clients declare; the modern ones have no tasks and no listChanged."""

MODERN_CAN: Final[list[Json]] = [
    *CAN[:3],
    EVERYTHING,
    {**EVERYTHING, "extensions": {TASKS: {}, "x/y": {}}},
    {"elicitation": {}, "extensions": {TASKS: {}}},
    *CAN[4:],
]


class Drawing(Acting, RuleBasedStateMachine):
    """Picks who it is that does something."""

    def pick(self, data: st.DataObject, values: list[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    def talking(self) -> list[Client]:
        """Return the clients that can ask for something, those of busy servers more than once."""
        able = [c for c in self.clients.values() if c.is_initialized or c.is_modern]
        return [c for c in able if c.server == "alpha"] * 2 + able

    def asker(self, data: st.DataObject, client: Client) -> tuple[Json, str | None] | None:
        """Return what a modern client says of itself in a request; a legacy one said it before."""
        if not client.is_modern or (client.is_initialized and data.draw(st.booleans())):
            return None
        capabilities = self.pick(data, MODERN_CAN)
        return capabilities, data.draw(st.sampled_from([None, None, None, "debug", "warning"]))
