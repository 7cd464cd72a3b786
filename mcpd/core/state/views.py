"""Which servers a session knows: the user's, and over them those of its workspace's project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcpd.core.interface.entries import Entry


class Views:
    """The entries as they are for each workspace. Never changed: other entries make another one."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._users: dict[str, Entry] = {}
        self._projects: dict[str, dict[str, Entry]] = {}
        self._waiting: dict[str, dict[str, Entry]] = {}
        for entry in entries:
            if entry.workspace is None:
                self._users[entry.name] = entry
            elif entry.is_untrusted:
                self._waiting.setdefault(entry.workspace, {})[entry.local_name] = entry
            else:
                self._projects.setdefault(entry.workspace, {})[entry.local_name] = entry
        self._views = {workspace: self._over(own) for workspace, own in self._projects.items()}

    def key(self, workspace: str | None) -> str | None:
        """Return the workspace, or ``None`` if it has the user's servers alone."""
        return workspace if workspace in self._views else None

    def of(self, workspace: str | None) -> Mapping[str, Entry]:
        """Return the entries that sessions of a workspace know, by name."""
        return self._views.get(workspace, self._users) if workspace else self._users

    def waiting(self, workspace: str | None) -> list[Entry]:
        """Return the entries of a workspace that nobody has trusted yet."""
        return list(self._waiting.get(workspace, {}).values()) if workspace else []

    def named(self, name: str, workspace: str | None) -> Entry | None:
        """Return what sessions of a workspace mean by a name.

        A server of the project comes before the user's, unless it waits to be trusted.
        """
        if workspace is None:
            return self._users.get(name)
        first = self._projects.get(workspace, {}).get(name)
        return first or self._users.get(name) or self._waiting.get(workspace, {}).get(name)

    def _over(self, own: Mapping[str, Entry]) -> dict[str, Entry]:
        """Return the user's entries, but those whose names are taken, and then a project's."""
        view = {name: entry for name, entry in self._users.items() if name not in own}
        return view | {entry.name: entry for entry in own.values()}
