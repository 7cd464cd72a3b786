from __future__ import annotations

from mcpd.core.catalog.model import Catalog, Kind, Listing
from mcpd.core.upstream.known import Known

TOOLS, PROMPTS = Listing.empty(Kind.TOOLS), Listing.empty(Kind.PROMPTS)
BEFORE = Known(None, Catalog({Kind.PROMPTS: PROMPTS}), capabilities=b'{"roots":{}}')


def test_what_a_process_has_not_read_stays_of_one_that_was_told_the_same():
    now = Known(None, Catalog({Kind.TOOLS: TOOLS}), capabilities=b'{ "roots": {} }').after(BEFORE)
    assert now.catalog.lists == {Kind.TOOLS: TOOLS, Kind.PROMPTS: PROMPTS}
    assert now.others.lists == {}


def test_what_one_listed_that_was_told_otherwise_is_kept_apart():
    now = Known(None, Catalog({Kind.TOOLS: TOOLS})).after(BEFORE)
    assert now.catalog.lists == {Kind.TOOLS: TOOLS}
    assert now.newest.lists == {Kind.TOOLS: TOOLS, Kind.PROMPTS: PROMPTS}
