"""The table of control methods: complete, typed, and each row is what its handler takes."""

from __future__ import annotations

import typing
from pathlib import Path
from types import NoneType

import pytest

from mcpd.api import requests as api
from mcpd.api import results
from mcpd.core.facts import Failure
from mcpd.daemon.control.handlers import METHODS, ControlHandlers
from mcpd.listeners.control import ATTACH
from mcpd.listeners.requests import Encoded, ForMux, Method

PROTOCOL = (Path(__file__).parents[4] / "docs" / "protocol.md").read_text()
BY_NAME = {method.name: method for method in METHODS}


def documented() -> set[str]:
    section = PROTOCOL.partition("\n## Control methods\n")[2].partition("\n##")[0]
    return {row.split("`")[1] for row in section.splitlines() if row.startswith("| `mcpd/")}


def test_the_table_has_every_documented_method_and_no_other() -> None:
    assert set(BY_NAME) == documented()
    assert len(BY_NAME) == len(METHODS)
    assert f"### `{ATTACH}`" in PROTOCOL


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_handler_takes_and_returns_what_its_row_says(method: Method) -> None:
    """
    A method that the mux answers has an event in place of the result.
    """
    assert getattr(ControlHandlers, method.handler.__name__) is method.handler
    hints = typing.get_type_hints(method.handler)
    returned = hints.pop("return")
    assert issubclass(method.params, api.Params)
    assert list(hints.values())[-1] is method.params
    kinds = set(typing.get_args(returned) or (returned,)) - {Failure, NoneType}
    if any(typing.get_origin(kind) is Encoded for kind in kinds):
        ((result,),) = map(typing.get_args, kinds)
        kinds = {result}
    assert kinds == {method.result} or kinds <= set(typing.get_args(ForMux))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_parameters_of_a_method_are_documented(method: Method) -> None:
    (row,) = [row for row in PROTOCOL.splitlines() if row.startswith(f"| `{method.name}`")]
    taken = row.split(" | ")[1]
    for field in method.params.__struct_fields__:
        assert f"`{field}`" in taken


def test_every_type_of_parameters_and_results_is_used() -> None:
    """
    A type that no method has is left over.
    """
    parameters = {kind for kind in vars(api).values() if _is_params(kind)}
    assert parameters == {method.params for method in METHODS} | {api.AttachParams}
    whole = {
        "Hello", "Tools", "Prompts", "Resources", "AllReached", "Reloaded", "Entries", "Logs",
        "Events", "ShuttingDown",
    }  # fmt: skip
    assert {getattr(results, name) for name in whole} <= {method.result for method in METHODS}


def _is_params(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, api.Params)
