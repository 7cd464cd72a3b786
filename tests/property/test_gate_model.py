"""The gate against a model that says once more, by other means, what may reach a server.

``make model`` looks for longer, ``make model-mutants`` takes more rules out of the gate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.property.gate import mutants
from tests.property.gate.machine import found, made_up, play, shortened

STEPS = int(os.environ.get("MCPD_MODEL_STEPS", "60"))
EXAMPLES = int(os.environ.get("MCPD_MODEL_EXAMPLES", "100"))


def test_nothing_reaches_a_server_that_may_not():
    """
    Policies, principals, paths, answers and failures at random; others are tried by ``make model``.
    """
    said = found("gate", EXAMPLES, STEPS)
    if said is not None:
        story = shortened(said[0])
        print(story)
        play(story)
        raise AssertionError(said[1])


@pytest.mark.parametrize("mutant", mutants.NAMED, ids=lambda mutant: mutant.__name__)
def test_the_model_finds_it_when(mutant: Callable[[], Any]):
    assert mutants.finds(mutant), "the model finds nothing"


def test_a_story_happens_the_same_way_twice():
    """
    What was found is found again, by its seed.
    """
    assert made_up("seed", 9) == made_up("seed", 9)
