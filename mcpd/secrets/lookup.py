"""Finds the secrets that a server needs when it starts, wherever they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from mcpd import tasks
from mcpd.secrets import places
from mcpd.secrets.places import KEYRING_S, USES_FILE, USES_KEYRING, Mode, SecretsError
from mcpd.signin.protocol import Problem, Value

Reason = Literal["missing", "unusable", "keyring_locked", "keyring_unavailable"]


class Keyring(Protocol):
    """The keyring of the operating system, behind a time limit."""

    async def find(self, names: tuple[str, ...]) -> Value:
        """Return what is kept under several names, or the problem."""


class NotFound(msgspec.Struct, frozen=True):
    """Why a secret cannot be used; ``message`` and ``hint`` are for people and have no value."""

    name: str
    reason: Reason
    message: str
    hint: str


class Lookup:
    """Looks secrets up: in the credentials of systemd, in the keyring, in the file.

    Nothing is remembered. The keyring is asked once for all who ask while it is being asked: each
    use of it can show a prompt.
    """

    def __init__(
        self,
        state_dir: str,
        *,
        env: Mapping[str, str],
        mode: Callable[[], Mode],
        keyring: Keyring,
    ) -> None:
        """``env`` is the daemon's environment."""
        self.path: Final = places.path_in(state_dir)
        self._env = env
        self._mode = mode
        self._keyring = keyring
        self._names: set[str] = set()
        self._answer: asyncio.Future[Value] | None = None
        """The answer about ``_names``, for which the keyring has not been asked yet."""
        self._is_asking = False

    async def find(self, names: Sequence[str]) -> dict[str, str] | NotFound:
        """Return the secrets by their names, or why one of them cannot be used."""
        mode = self._mode()
        problem: Problem | None = None
        found = await asyncio.to_thread(places.of_systemd, names, self._env)
        left = [name for name in names if name not in found]
        if left and mode in USES_KEYRING:
            said = await self._ask(left)
            found |= {name: said.found[name] for name in left if name in said.found}
            problem = said.problem
        left = [name for name in names if name not in found]
        if left and mode in USES_FILE:
            try:
                kept = await asyncio.to_thread(places.in_file, self.path)
            except SecretsError as error:
                hint = error.hint or f"remove {self.path}, then: mcpctl secret set {left[0]}"
                return NotFound(left[0], "unusable", error.message, hint)
            found |= {name: kept[name] for name in left if name in kept}
        for name in names:
            if name not in found:
                return not_found(name, mode, problem)
            if "\0" in found[name]:
                why = f"the secret {name} has a NUL character, which no variable can have"
                return NotFound(name, "unusable", why, f"mcpctl secret set {name}")
        return found

    async def _ask(self, names: Sequence[str]) -> Value:
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
            if not self._is_asking:
                self._is_asking = True
                tasks.spawn(self._ask_for_all(), name="keyring.find")
        self._names.update(names)
        return await asyncio.shield(self._answer)

    async def _ask_for_all(self) -> None:
        while self._answer is not None:
            names, self._names = tuple(sorted(self._names)), set()
            answer, self._answer = self._answer, None
            answer.set_result(await self._keyring.find(names))
        self._is_asking = False


def not_found(name: str, mode: Mode, problem: Problem | None) -> NotFound:
    """Return why a secret that is nowhere cannot be used; ``problem`` is that of the keyring."""
    to_set = f"mcpctl secret set {name}"
    if problem == "locked":
        why = f"the keyring, which may have {name}, is locked or gave no answer in {KEYRING_S:g} s"
        hint = "unlock the keyring: the next use tries again"
        return NotFound(name, "keyring_locked", why, hint)
    if problem == "unavailable" or (problem == "none" and mode == "system"):
        what = "there is no keyring here" if problem == "none" else "the keyring cannot be used"
        hint = 'mcpctl doctor; without a keyring: [trust] keyring = "file"'
        return NotFound(name, "keyring_unavailable", f"{what}: the secret {name}", hint)
    if mode == "off":
        to_set = f'[trust] keyring = "auto", then: {to_set}'
    return NotFound(name, "missing", f"there is no secret {name}", to_set)
