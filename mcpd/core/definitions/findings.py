"""What was seen in the definitions of servers: each server's, and all of them compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from mcpd.core.catalog import scan
from mcpd.core.catalog.examine import Examined, Notice, crossed, shadows
from mcpd.core.catalog.model import Kind
from mcpd.core.catalog.pins import Rules
from mcpd.core.catalog.scan import Finding

_LISTS: Final = 64  # for clients with other capabilities that are remembered as examined
_LISTS_BYTES: Final = 8 * 1024 * 1024  # of them together


class AllFindings:
    """The findings of all servers, each of which is compared with the others."""

    def __init__(self) -> None:
        self._servers: Mapping[str, ServerFindings] = {}
        self._names: tuple[str, ...] = ()
        self.generation = 0
        """Counts what was examined, so that findings are made once of it."""

    def configure(self, names: Iterable[str], servers: Mapping[str, ServerFindings]) -> None:
        """Take the names of all entries, and the servers that are compared."""
        self._names = tuple(names)
        self._servers = servers
        self.generation += 1

    def tools_beside(self, own: ServerFindings) -> list[str]:
        """Return the names of the tools of all other servers."""
        others = (each for each in self._servers.values() if each is not own)
        return [examined.item.identity for each in others for examined in each.tools()]

    def listed_beside(self, own: ServerFindings) -> dict[str, list[Examined]]:
        """Return the tools of all servers that are started from something else."""
        return {
            name: each.tools()
            for name, each in self._servers.items()
            if each.identity != own.identity
        }

    def server_alike(self, name: str) -> list[Finding]:
        """Return a finding where the name of a server looks like another one's."""
        alike = scan.look_alikes(self._names).get(name)
        found: list[Finding] = []
        if alike is not None:
            evidence = f"looks like {scan.visible(alike)}"
            found.append(Finding("server", name, "name.lookalike", "hard", evidence, "name"))
        return found


class ServerFindings:
    """What was seen in the lists and the instructions of one server, in this life of the daemon."""

    def __init__(self, name: str, rules: Rules, all_of_them: AllFindings) -> None:
        self.name = name
        self._rules = rules
        self._all = all_of_them
        self._examined: dict[tuple[str, Kind], tuple[Examined, ...]] = {}
        self._sizes: dict[tuple[str, Kind], int] = {}
        """Bytes of the lists among them that are for clients with capabilities of their own."""
        self._instructions: dict[str, tuple[list[Finding], tuple[Notice, ...]]] = {}
        self._found: tuple[int, list[Finding]] | None = None
        """All findings, and at which generation of all definitions they were made."""

    @property
    def identity(self) -> str:
        """A digest of what is started, or reached."""
        return self._rules.identity

    def configure(self, rules: Rules) -> None:
        """Take over other rules. Lists that were sanitised by the old ones are forgotten."""
        if rules.sanitise != self._rules.sanitise:
            self._examined.clear()
            self._sizes.clear()
        self._rules = rules

    # -- taking ----------------------------------------------------------------------------------

    def take_list(self, key: str, kind: Kind, examined: tuple[Examined, ...]) -> None:
        """Take a list that was examined; ``key`` are the capabilities that it was asked with."""
        self._examined.pop((key, kind), None)  # the newest is the last
        self._examined[key, kind] = examined
        if key:
            self._sizes.pop((key, kind), None)
            self._sizes[key, kind] = sum(len(each.item.raw) for each in examined)
        while len(self._sizes) > _LISTS or (
            len(self._sizes) > 1 and sum(self._sizes.values()) > _LISTS_BYTES
        ):
            oldest = next(iter(self._sizes))
            del self._sizes[oldest], self._examined[oldest]
        self._all.generation += 1

    def take_instructions(
        self, key: str, findings: list[Finding], notices: tuple[Notice, ...]
    ) -> None:
        """Take what was found in the instructions, and what was removed from them."""
        self._instructions[key] = findings, notices
        self._all.generation += 1

    def drop_instructions(self, key: str) -> None:
        """Forget instructions that the server does not have any more."""
        self._instructions.pop(key, None)

    # -- looking ---------------------------------------------------------------------------------

    def known(self, key: str, kind: Kind) -> dict[bytes, Examined]:
        """Return what was examined of a list before, by its bytes."""
        return {each.item.raw: each for each in self._examined.get((key, kind), ())}

    def crossed(self, kind: Kind, examined: tuple[Examined, ...]) -> list[Finding]:
        """Return findings of a list that come from comparing it with itself and other servers."""
        return crossed(kind, examined, self._all.tools_beside(self))

    def all(self) -> list[Finding]:
        """Return all that was found, the worst first, of each thing once."""
        if self._found is None or self._found[0] != self._all.generation:
            self._found = self._all.generation, self._compute()
        return self._found[1]

    def _compute(self) -> list[Finding]:
        found: list[Finding] = []
        others = self._all.tools_beside(self)
        for (_, kind), examined in self._examined.items():
            found += crossed(kind, examined, others)
            found += findings_of(examined)
        found += shadows(self.tools(), self._all.listed_beside(self))
        for each, _ in self._instructions.values():
            found += each
        found += self._all.server_alike(self.name)
        weights = ("hard", "soft", "noted")
        return sorted(dict.fromkeys(found), key=lambda each: weights.index(each.weight))

    def notices(self) -> list[Notice]:
        """Return what was removed, of each thing once."""
        lists = (each.notices for examined in self._examined.values() for each in examined)
        all_of_them = itertools.chain(
            lists, (notices for _, notices in self._instructions.values())
        )
        return list(dict.fromkeys(itertools.chain.from_iterable(all_of_them)))

    @property
    def is_whole(self) -> bool:
        """Whether all definitions could be looked at wholly."""
        return all(each.is_whole for found in self._examined.values() for each in found)

    @property
    def is_examined(self) -> bool:
        """Whether anything was listed in this life of the daemon."""
        return bool(self._examined)

    def tools(self) -> list[Examined]:
        """Return the tools that were examined in this life of the daemon."""
        found = (each for (_, kind), each in self._examined.items() if kind is Kind.TOOLS)
        return [*itertools.chain.from_iterable(found)]


def findings_of(examined: Iterable[Examined]) -> list[Finding]:
    """Return what was found in each definition by itself."""
    return [finding for each in examined for finding in each.findings]
