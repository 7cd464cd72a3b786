"""Attacks as servers would list them: how many are found."""

from __future__ import annotations

import json
from typing import Final

import pytest

from mcpd.core.catalog.examine import Job, crossed, examine, shadows
from mcpd.core.catalog.model import Item, Kind
from mcpd.core.catalog.scan import Finding, scan_text
from tests.unit.core.catalog.corpus import reported
from tests.unit.core.catalog.corpus.reported import ATTACKS, Attack

FOUND: Final = 0.95
KINDS: Final = {"tool": Kind.TOOLS, "prompt": Kind.PROMPTS}

hard_ones = pytest.mark.parametrize(
    "attack", [pytest.param(each, id=each.source) for each in ATTACKS if each.hard]
)


def listed(kind: Kind, definition: dict[str, object]) -> Item:
    return Item(str(definition["name"]), json.dumps(definition).encode())


def findings(attack: Attack) -> list[Finding]:
    """Return what is found in a definition beside the honest tools of another server."""
    if isinstance(attack.definition, str):
        return scan_text("instructions", "", attack.definition)[0]
    kind = KINDS[attack.kind]
    own = examine(Job(kind, (listed(kind, attack.definition),)))
    honest = [reported.tool(name, "Does what its name says.") for name in attack.beside]
    others = examine(Job(Kind.TOOLS, tuple(listed(Kind.TOOLS, each) for each in honest)))
    found = [*own[0].findings, *crossed(kind, own, attack.beside)]
    return [*found, *shadows(own, {"honest": others})]


@hard_ones
def test_what_has_no_honest_use_is_hard(attack: Attack) -> None:
    """
    TAG characters, bidi, ANSI, look-alikes and commands: every one of them.
    """
    assert attack.hard in {each.cls for each in findings(attack) if each.weight == "hard"}


def test_nearly_all_attacks_are_found() -> None:
    """
    Plain language has no end; what is missed is told here, and not left out of the corpus.
    """
    missed = [
        each.source for each in ATTACKS if all(one.weight == "noted" for one in findings(each))
    ]
    assert len(missed) <= (1 - FOUND) * len(ATTACKS), missed


def test_attacks_are_different_ones() -> None:
    """
    So their number says something.
    """
    definitions = [json.dumps(each.definition) for each in ATTACKS]
    assert len(set(definitions)) == len(ATTACKS)
    assert {each.kind for each in ATTACKS} == {"tool", "prompt", "instructions"}
