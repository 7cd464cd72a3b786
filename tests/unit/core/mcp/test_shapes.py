"""What the members of parameters are; what old servers would die of is named."""

from __future__ import annotations

import pytest

from mcpd.core.mcp import shapes
from mcpd.core.wire import envelope

PROMPT = '"ref":{"type":"ref/prompt","name":"p"}'
ARGUMENT = '"argument":{"name":"a","value":"\\ud800"}'


def find_problem(method: str, params: str) -> str | None:
    found = envelope.params_of(params.encode())
    assert found is not None
    return shapes.find_problem(method, found)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", '{"name":"x"}'),
        ("tools/call", '{"name":"x","arguments":null,"_meta":null}'),
        ("tools/call", '{"name":"x","arguments":{"a":[1e400]},"_meta":{}}'),
        ("prompts/get", '{"name":"x","arguments":{"a":"\\ud800"}}'),
        ("prompts/get", '{"name":"x","arguments":null}'),
        ("completion/complete", f"{{{PROMPT},{ARGUMENT}}}"),
        (
            "completion/complete",
            f'{{"ref":{{"type":"ref/resource","uri":"a:{{b}}"}},{ARGUMENT}}}',
        ),
        ("resources/read", '{"uri":"x","arguments":5}'),
    ],
)
def test_well_formed_parameters_have_no_problem(method: str, params: str) -> None:
    assert find_problem(method, params) is None


@pytest.mark.parametrize(
    ("method", "params", "member"),
    [
        ("tools/call", '{"name":"x","arguments":[]}', "arguments"),
        ("tools/call", '{"name":"x","arguments":"x"}', "arguments"),
        ("tools/call", '{"name":"x","_meta":5}', "_meta"),
        ("resources/read", '{"uri":"x","_meta":[]}', "_meta"),
        ("prompts/get", '{"name":"x","arguments":{"a":1}}', "arguments"),
        ("prompts/get", '{"name":"x","arguments":[]}', "arguments"),
        ("completion/complete", f'{{"ref":5,{ARGUMENT}}}', "ref"),
        ("completion/complete", f'{{"ref":{{"type":"ref/x","name":"p"}},{ARGUMENT}}}', "ref"),
        (
            "completion/complete",
            f'{{"ref":{{"type":"ref/resource","name":"p"}},{ARGUMENT}}}',
            "ref",
        ),
        ("completion/complete", f'{{{PROMPT},"argument":{{"name":"a"}}}}', "argument"),
        ("completion/complete", f'{{{PROMPT},"argument":"a"}}', "argument"),
    ],
)
def test_a_malformed_parameter_is_named(method: str, params: str, member: str) -> None:
    assert (find_problem(method, params) or "").startswith(f"{member} must")
