"""Sets, lists, moves and removes secrets, where no daemon runs too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mcpd.config.texts import secretnames
from mcpd.errors import McpdError
from mcpd.secrets import keyring, places
from mcpd.secrets.places import (
    KEYRING_S,
    SERVICE,
    USES_FILE,
    USES_KEYRING,
    Mode,
    Place,
    SecretsError,
)
from mcpd.signin.protocol import KeyringOrder, Problem, Value

MOST_CHARACTERS: Final = 64 * 1024


class KeyringLocked(McpdError):
    """The keyring is locked, or shows a prompt that nobody answers."""

    slug = "keyring_locked"


class KeyringUnavailable(McpdError):
    """There is no keyring, or it cannot be used."""

    slug = "keyring_unavailable"


class Where(msgspec.Struct, frozen=True):
    """Where secrets are, by their names: first the place that counts.

    ``problem`` is that of the keyring, if it was asked.
    """

    places: dict[str, list[Place]]
    problem: Problem | None = None


class Store:
    """The secrets of one state directory."""

    def __init__(
        self,
        state_dir: str,
        mode: Mode,
        env: Mapping[str, str],
        use: Callable[[KeyringOrder], Value] = keyring.use,
    ) -> None:
        """``mode`` is what the configuration says, ``use`` uses the keyring."""
        self.path: Final = places.path_in(state_dir)
        self._mode: Mode = mode
        self._env = env
        self._use = use

    def set(self, name: str, value: str) -> Place:
        """Keep a secret, and return where.

        Raises:
            SecretsError: the name or the value is wrong, or the file cannot be written.
            KeyringLocked: the keyring did not answer.
            KeyringUnavailable: the configuration wants a keyring, and none can be used.
        """
        check(name)
        _check_value(value)
        if self._mode == "off":
            raise SecretsError(
                'secrets are off ([trust] keyring = "off")', hint='[trust] keyring = "auto"'
            )
        if self._mode in USES_KEYRING:
            problem = self._put(name, value)
            if problem is None:
                if self._mode in USES_FILE:  # an older one
                    places.drop(self.path, (name,))
                return "keyring"
            if problem == "locked" or self._mode not in USES_FILE:
                raise trouble(problem)
        places.put(self.path, name, value)
        return "file"

    def names(self) -> list[str]:
        """Return the names in the file; those in the keyring cannot be listed."""
        return list(places.in_file(self.path))

    def where(self, names: Iterable[str]) -> Where:
        """Return where secrets are; raise ``SecretsError`` where the file cannot be read."""
        names = tuple(names)
        by_systemd = places.of_systemd(names, self._env)
        said = self._find(names)
        in_file = places.in_file(self.path)
        found: dict[str, list[Place]] = {}
        for name in names:
            kept: list[tuple[Place, bool]] = [
                ("systemd", name in by_systemd),
                ("keyring", name in said.found),
                ("file", name in in_file),
            ]
            found[name] = [place for place, is_there in kept if is_there]
        return Where(found, said.problem)

    def values(self, names: Iterable[str]) -> Value:
        """Return what secrets are now, and the problem of the keyring; raise as ``where`` does."""
        said = self._find(tuple(names))
        found: dict[str, str] = {}
        if self._mode in USES_FILE:
            in_file = places.in_file(self.path)
            found = {name: in_file[name] for name in names if name in in_file}
        return Value(found={**found, **said.found}, problem=said.problem)

    @property
    def uses_keyring(self) -> bool:
        """Whether secrets are kept in a keyring, if there is one."""
        return self._mode in USES_KEYRING

    def remove(self, name: str) -> list[Place]:
        """Remove a secret wherever it is, and return where it was.

        Raises:
            SecretsError: it is nowhere, or the file cannot be read or written.
            KeyringLocked, KeyringUnavailable: it may be in the keyring, which cannot be used.
        """
        check(name)
        found = self.where((name,))
        kept: list[Place] = [place for place in found.places[name] if place != "systemd"]
        if "file" in kept:
            places.drop(self.path, (name,))
        if "keyring" in kept:
            order = KeyringOrder(service=SERVICE, action="delete", name=name)
            if not (said := self._use(order)).is_done:
                raise trouble(said.problem or "unavailable")
        elif found.problem in ("locked", "unavailable"):
            raise trouble(found.problem)
        if not kept:
            raise SecretsError(f"there is no secret {name}", hint="mcpctl secret list shows them")
        return kept

    def move(self, names: Iterable[str] = ()) -> list[str]:
        """Move secrets from the file to the keyring, all without ``names``; return their names.

        Raises:
            SecretsError: one is not in the file, or the file cannot be read or written.
            KeyringLocked, KeyringUnavailable: the keyring cannot be used.
        """
        if self._mode not in USES_KEYRING:
            raise SecretsError(
                f'the keyring is not used ([trust] keyring = "{self._mode}")',
                hint='[trust] keyring = "auto"',
            )
        kept = places.in_file(self.path)
        wanted = list(dict.fromkeys(names)) or list(kept)
        for name in wanted:
            if name not in kept:
                raise SecretsError(f"{self.path} has no secret {name}")
        for name in wanted:
            if (problem := self._put(name, kept[name])) is not None:
                raise trouble(problem)
            places.drop(self.path, (name,))
        return wanted

    def _find(self, names: tuple[str, ...]) -> Value:
        if not names or not self.uses_keyring:
            return Value()
        return self._use(KeyringOrder(service=SERVICE, action="find", names=names))

    def _put(self, name: str, value: str) -> Problem | None:
        order = KeyringOrder(service=SERVICE, action="set", name=name, value=value)
        said = self._use(order)
        return None if said.is_done else said.problem or "unavailable"


def check(name: str) -> None:
    """Raise ``SecretsError`` for a name that no secret can have."""
    if not secretnames.is_name(name):
        raise SecretsError(
            f"{name!r} is no name of a secret: letters, digits, _, - and ., "
            f"{secretnames.MOST_CHARACTERS} at most"
        )


def trouble(problem: Problem) -> McpdError:
    """Return the error for a keyring that cannot be used."""
    if problem == "locked":
        return KeyringLocked(
            f"the keyring is locked, or gave no answer in {KEYRING_S:g} s",
            hint="unlock it, then again",
        )
    what = "there is no keyring here" if problem == "none" else "the keyring cannot be used"
    return KeyringUnavailable(what, hint='[trust] keyring = "file" keeps secrets in a private file')


def _check_value(value: str) -> None:
    if not value or "\0" in value or len(value) > MOST_CHARACTERS:
        raise SecretsError(f"a secret has 1 to {MOST_CHARACTERS} characters, and no NUL among them")
