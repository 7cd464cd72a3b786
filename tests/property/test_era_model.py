"""The mux against a model of both eras, and the model against mistakes in the mux.

``make model`` looks for longer, ``make model-mutants`` tries more mistakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.property import mutants
from tests.property.model.machine import Machine

TestEraModel = Machine.TestCase
TestEraModel.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,  # others are tried by `make model`
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.reuse, Phase.generate, Phase.shrink],  # explaining would trace every line
)


@pytest.mark.parametrize("mutant", mutants.NAMED, ids=lambda mutant: mutant.__name__)
def test_the_model_finds_it_when(mutant: Callable[[], Any]):
    """
    A model that finds nothing wrong shows nothing unless it finds what is.
    """
    assert mutants.found(mutant) is not None
