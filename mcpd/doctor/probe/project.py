"""Reads what the files of the current directory's project offer, and what of it is trusted."""

from __future__ import annotations

from collections.abc import Mapping

from mcpd.config.load import load
from mcpd.doctor.facts import Project
from mcpd.projects import files, kept
from mcpd.projects.kept import ProjectsError
from mcpd.projects.look import workspace_at
from mcpd.projects.states import WAITING, states


def project(state_dir: str, config: str | None, env: Mapping[str, str]) -> Project | None:
    """Return what is known of it; ``None`` where there is none, or projects are turned off."""
    loaded = load(config, env)
    try:
        found = files.read(workspace_at(None))
    except OSError:  # the directory was removed
        return None
    if found.is_empty or not loaded.daemon.projects:
        return None
    trouble = None
    try:
        remembered = kept.read(kept.path_in(state_dir))
    except ProjectsError as error:
        remembered, trouble = {}, error
    said = states(found, remembered, loaded.trust.trusted_projects)
    return Project(
        directory=found.workspace,
        waiting=tuple(name for name, state in said.items() if state in WAITING),
        problems=tuple((problem.severity, str(problem)) for problem in found.problems),
        trouble=None if trouble is None else trouble.message,
        remedy=None if trouble is None else trouble.hint,
    )
