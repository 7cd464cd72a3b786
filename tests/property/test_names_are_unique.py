"""Every qualified name is legal, stable, and belongs to one tool of one server."""

from __future__ import annotations

import re
from itertools import permutations

from hypothesis import example, given
from hypothesis import strategies as st

from mcpd.core.catalog.naming import qualify, sanitise

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

# Few different characters, so that names collide.
server_names = st.text("ab_.-é", min_size=1, max_size=6) | st.text("a_", min_size=45, max_size=70)
tool_names = (
    st.text("ab_./", max_size=6) | st.text("a_", min_size=40, max_size=70) | st.text(max_size=5)
)
configs = st.dictionaries(server_names, st.lists(tool_names, max_size=6), min_size=1, max_size=5)


def qualified(config: dict[str, list[str]]) -> dict[str, tuple[str, str]]:
    owners: dict[str, tuple[str, str]] = {}
    for server, tools in config.items():
        for tool, name in qualify(config, server, tools).items():
            assert LEGAL.match(name), name
            assert name not in owners, (name, owners[name], (server, tool))
            owners[name] = (server, tool)
    return owners


@given(configs)
@example({"a": ["b__c", "_c"], "a__b": ["c"], "a_": ["c"]})
@example({"a_b": ["c"], "a": ["b_c"], "x.y": ["t"], "x_y": ["t"]})
def test_names_lead_back_to_one_tool(config: dict[str, list[str]]):
    """
    B092, B093: no two tools of any servers share a name, and none is lost.
    """
    owners = qualified(config)
    assert sorted(owners.values()) == sorted(
        (s, t) for s, tools in config.items() for t in set(tools)
    )


@given(configs, st.data())
def test_a_forged_name_reaches_nobody_else(config: dict[str, list[str]], data: st.DataObject):
    """
    A server that knows everybody's names and lists them as its own, less its prefix.
    """
    names = sorted(qualified(config))
    forger = data.draw(st.sampled_from(sorted(config)))
    own = sanitise(forger) + "__"
    forged = [name.removeprefix(own) for name in names if name.startswith(own)]
    qualified({**config, forger: [*config[forger], *forged]})


@given(configs)
def test_names_do_not_depend_on_the_order_of_the_servers(config: dict[str, list[str]]):
    """
    B093: ten restarts, whoever is ready first: the same names.
    """
    for order in list(permutations(config))[:10]:
        for server, tools in config.items():
            assert qualify(order, server, tools) == qualify(config, server, tools)
