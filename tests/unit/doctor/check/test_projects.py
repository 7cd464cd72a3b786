"""What the doctor says of projects."""

from __future__ import annotations

from typing import Any

from mcpd.doctor.check.projects import check
from mcpd.doctor.facts import Project, Talk


def told(project: Project | None, *servers: dict[str, str]) -> list[tuple[str, str, str | None]]:
    status: Any = {"servers": list(servers)}
    talk = Talk(pid=1, hello={}, status=status)
    return [(each.id, each.message, each.remedy) for each in check(project, talk)]


def test_what_waits_is_named_by_project_and_once():
    one = {"name": "one@/a b", "project": "/a b", "state": "untrusted"}
    two = {"name": "two@/a b", "project": "/a b", "state": "untrusted"}
    mine = {"name": "mine", "state": "ready"}
    what = "servers of the project in /a b wait until you trust them: one, two"
    expected = [("project_untrusted", what, "mcpctl trust '/a b'")]
    assert told(None, one, mine, two) == expected
    assert told(Project(directory="/a b", waiting=("one", "two")), one, mine, two) == expected
    assert told(None, mine) == []


def test_the_files_of_the_current_project_are_looked_at_without_a_daemon():
    project = Project(
        directory="/a",
        waiting=("one",),
        problems=(("error", "x is refused"), ("warning", "y is ignored")),
        trouble="cannot read projects.json",
        remedy="chmod 600 projects.json",
    )
    assert [each.id for each in check(project, None)] == [
        "projects_unusable",
        "project_refused",
        "project_ignored",
        "project_untrusted",
    ]
