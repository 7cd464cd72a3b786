"""Clients over HTTP and on the socket against a model, and the model against mistakes in the front.

``make model-mutants`` tries more mistakes; ``MCPD_HYPOTHESIS=nightly`` goes on for longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.property.http import mutants
from tests.property.http.machine import Machine

IS_NIGHTLY = settings().max_examples > 100

TestHttpSessions = Machine.TestCase
TestHttpSessions.settings = settings(
    max_examples=3000 if IS_NIGHTLY else 30,
    stateful_step_count=50,
    deadline=None,
    derandomize=not IS_NIGHTLY,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.mark.parametrize("mutant", mutants.QUICK, ids=lambda mutant: mutant.__name__)
def test_the_model_finds_it_when(mutant: Callable[[], Any]) -> None:
    """
    A model that finds nothing wrong shows nothing unless it finds what is.
    """
    assert mutants.found(mutant) is not None
