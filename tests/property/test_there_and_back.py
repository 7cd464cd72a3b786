"""Legacy to modern and back to legacy: every byte that is not the bridge's own stays."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from mcpd.core.mcp import modern, modern_meta, translation
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.input_required import retry_params, without_input_responses
from mcpd.core.mcp.listen import with_subscription_id, without_subscription_id
from mcpd.core.mcp.versions import Era
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_of

INFO = b'{"name":"s","version":"1"}'
SAID = ClientInfo(
    Era.LEGACY, b'{"sampling":{}}', b'{"name":"c","version":"1"}', frozenset(), "debug"
)
READ = ClientInfo(Era.MODERN)
OURS = {"_meta", "task", "inputResponses", "requestState", "resultType", "ttlMs", "cacheScope"}

scalars = st.one_of(
    st.sampled_from(
        [
            "1.0",
            "1e400",
            "-0",
            "-0.0",
            "1E+2",
            "123456789012345678901234567890",
            "true",
            "null",
            '"\\ud83d"',
            '"\\u00e9 \u2028 \\/ \\" \\\\ }"',
            '"_meta"',
            '"io.modelcontextprotocol/logLevel"',
            '{"_meta":{"resultType":"x"}, "_meta":1}',
            '{"a":1,"a":2}',
        ]
    ),
    st.text(max_size=8).map(json.dumps),
)
space = st.sampled_from(["", "", "", " ", "\n\t"])
values: st.SearchStrategy[str] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(lambda found: "[" + ", ".join(found) + "]"),
    max_leaves=6,
)


def named(reserved: set[str]) -> st.SearchStrategy[str]:
    """Names of members, in any spelling, and the same ones again and again."""
    chosen = st.one_of(st.sampled_from(["a", "b", "é", "\ud83d", "name"]), st.text(max_size=4))
    return chosen.filter(lambda name: name not in reserved).map(json.dumps)


@st.composite
def objects(draw: st.DrawFn, reserved: set[str], extra: list[str] | None = None) -> bytes:
    members = [
        f"{draw(named(reserved))}{draw(space)}:{draw(space)}{draw(values)}"
        for _ in range(draw(st.integers(0, 4)))
    ] + (extra or [])
    ordered = draw(st.permutations(members))
    inside = ",".join(f"{draw(space)}{member}{draw(space)}" for member in ordered)
    return f"{{{inside}}}".encode("utf-8", "surrogatepass")


metas = objects(set(modern_meta.ENVELOPE_KEYS)).filter(lambda meta: not splice.is_empty(meta))


@st.composite
def with_meta(draw: st.DrawFn) -> bytes:
    extra = draw(st.one_of(st.none(), metas.map(lambda meta: [f'"_meta":{meta.decode()}'])))
    return draw(objects(OURS, extra))


@given(with_meta())
@example(b'{"_meta":{"progressToken":1}}')
@example(b'{"a":1,"a":2}')
@example(b'{"\\ud83d":1e400}')
def test_parameters_come_back_byte_for_byte(params: bytes):
    there = translation.params_for_server(Raw(params), SAID, Era.MODERN)
    assert there is not None
    client_info = modern_meta.read_envelope((object_of(there) or {})["_meta"])
    assert client_info is not None and client_info.level == "debug"
    back = translation.params_for_server(there, READ, Era.LEGACY)
    if splice.is_empty(params):
        assert back is None or splice.is_empty(back)
    else:
        assert back == params


@given(objects(OURS | {"_meta"}))
@example(b'{"content":[],"a":1,"a":2}')
def test_results_come_back_with_no_more_than_the_servers_name(result: bytes):
    there = translation.result_for_modern("tools/list", Raw(result), INFO)
    assert modern.result_type(there) == "complete"
    back = translation.result_for_legacy(there)
    about = b'{"_meta":{"%b":%b}' % (modern_meta.SERVER_INFO_KEY.encode(), INFO)
    if splice.is_empty(result):
        assert back == about + b"}"
    else:
        assert back == about + b"," + result[1:]


@given(objects(OURS | {"_meta"}), st.sampled_from([b"1", b'"1"', b'"\\u0041"']))
def test_a_notification_comes_back_without_its_tag(params: bytes, ident: bytes):
    back, found = without_subscription_id(with_subscription_id(Raw(params), ident))
    assert found == ident
    if splice.is_empty(params):
        assert back is None
    else:
        assert back == params


@given(
    objects(OURS | {"_meta"}),
    st.dictionaries(st.text(max_size=3), values.map(lambda v: v.encode("utf-8")), max_size=3),
)
def test_a_retry_has_the_parameters_of_the_request(params: bytes, responses: dict[str, bytes]):
    retry = retry_params(params, responses, b'"s"')
    back = without_input_responses(retry)
    assert back == params or (splice.is_empty(params) and back == b"{}")
