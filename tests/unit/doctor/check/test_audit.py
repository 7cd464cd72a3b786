"""What is said of the audit."""

from __future__ import annotations

import pytest

from mcpd.doctor.check.audit import check
from mcpd.doctor.facts import Audit, Talk

PATH = "/state/audit.db"


def talk(*problems: str) -> Talk:
    return Talk(status={"daemon": {"problems": list(problems)}, "servers": []})


@pytest.mark.parametrize(
    ("found", "said", "ids"),
    [
        (Audit(path=PATH), None, []),
        (Audit(path=PATH), talk("the audit is not written: full"), ["audit_not_written"]),
        (Audit(path=PATH), talk("the audit has a gap: 1 rows"), []),
        (Audit(path=PATH, trouble="it is locked"), None, ["audit_unreadable"]),
        (
            Audit(path=PATH, trouble="version 9", is_newer=True),
            talk("the audit is not written: version 9"),
            ["audit_newer"],
        ),
        (Audit(path=PATH, gaps=(("t1", 1, 0), ("t2", 5, 6))), None, ["audit_gap"]),
        (Audit(path=PATH, aside=(PATH + ".bad-1",)), None, ["audit_set_aside"]),
        (None, talk("the audit is not written: full"), ["audit_not_written"]),
    ],
)
def test_each_trouble_is_said_once(found: Audit | None, said: Talk | None, ids: list[str]) -> None:
    assert [each.id for each in check(found, said, is_on=True)] == ids
    assert list(check(found, said, is_on=False)) == []


def test_the_newest_gap_is_told_with_how_many_there_are() -> None:
    (found,) = check(Audit(path=PATH, gaps=(("t1", 1, 0), ("t2", 5, 6))), None, is_on=True)
    assert "before t2" in found.message and "5 rows" in found.message
    assert "2 gaps" in found.message
