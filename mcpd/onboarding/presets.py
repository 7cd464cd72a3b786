"""Known servers, from ``presets.json``: how each is started or reached, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import msgspec

FILE: Final = "presets.json"

_PLACE: Final = re.compile(r"\{([A-Z_]+)\}")
_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+)\}")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known server: a package of npm or PyPI, or a URL."""

    description: str
    npm: str | None = None
    """Its package, which ``npx`` runs."""

    pypi: str | None = None
    """Its package, which ``uvx`` runs."""

    args: tuple[str, ...] = ()
    """Arguments after the package. ``{NAME}`` is replaced by the value of that need."""

    env: dict[str, str] = {}
    """Variables, as they are written into the entry."""

    url: str | None = None
    bearer: str | None = None
    """The variable that holds its token."""

    signs_in: bool = False
    """Whether a person signs in to it, with ``mcpctl login``."""

    needs: dict[str, str] = {}
    """What a person must give: the name of a variable or of a place in ``args``, and what it is."""

    @property
    def places(self) -> tuple[str, ...]:
        """The needs that are arguments, in their order; the others are variables."""
        return tuple(name for text in self.args for name in _PLACE.findall(text))

    def entry(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Return the entry, with ``values`` by the names of its needs.

        A variable without a value stays ``${NAME}``. Raises ``KeyError`` for an argument without
        one.
        """
        if self.url is not None:
            found: dict[str, Any] = {"url": self.url}
            if self.bearer is not None:
                token = values.get(self.bearer, f"${{{self.bearer}}}")
                found["headers"] = {"Authorization": f"Bearer {token}"}
            return found
        args = [_PLACE.sub(lambda place: values[place[1]], text) for text in self.args]
        if self.npm is not None:
            found = {"command": "npx", "args": ["-y", self.npm, *args]}
        else:
            found = {"command": "uvx", "args": [self.pypi, *args]}
        if self.env:
            found["env"] = {
                key: _VARIABLE.sub(lambda name: values.get(name[1], name[0]), text)
                for key, text in self.env.items()
            }
        return found


def read() -> dict[str, Preset]:
    """Return the presets by their names, in the order of the file."""
    content = resources.files(__package__).joinpath(FILE).read_bytes()
    return msgspec.json.decode(content, type=dict[str, Preset])


def matching(presets: Mapping[str, Preset], text: str) -> dict[str, Preset]:
    """Return the presets that have ``text`` in their name or description, in any case."""
    wanted = text.lower()
    return {
        name: preset
        for name, preset in presets.items()
        if wanted in name or wanted in preset.description.lower()
    }
