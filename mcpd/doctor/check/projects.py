"""Checks what projects offer: what waits until a person trusts it, and what is refused."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mcpd.doctor.facts import Project, Talk
from mcpd.doctor.finding import Finding, error, note, warning


def check(project: Project | None, talk: Talk | None) -> Iterator[Finding]:
    """Yield the findings about the current project, and others that the daemon knows of."""
    waiting: dict[str, list[str]] = {}
    if talk is not None and talk.status is not None:
        for server in talk.status["servers"]:
            if server["state"] == "untrusted":
                directory = server["project"]
                local = server["name"].removesuffix(f"@{directory}")
                waiting.setdefault(directory, []).append(local)
    if project is not None:
        yield from _of_files(project)
        if project.waiting:
            waiting[project.directory] = list(project.waiting)
    for directory, names in waiting.items():
        what = f"servers of the project in {directory} wait until you trust them"
        yield note("project_untrusted", f"{what}: {', '.join(names)}", _trust(directory))


def _of_files(project: Project) -> Iterator[Finding]:
    if project.trouble is not None:
        remedy = project.remedy or "move that file away, and trust your projects again"
        yield error("projects_unusable", f"no project is trusted: {project.trouble}", remedy)
    for severity, text in project.problems:
        ident = "project_refused" if severity == "error" else "project_ignored"
        yield warning(ident, text, _trust(project.directory))


def _trust(directory: str) -> str:
    return f"mcpctl trust {shlex.quote(directory)}"
