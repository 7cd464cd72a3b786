"""Where sign-ins are kept: the keyring of the operating system, else a file that is private."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from mcpd import paths, privatefiles
from mcpd.signin.credentials import Credentials
from mcpd.signin.file import Kept, StoreError, change, path_in, read

_POLL_S: Final = 0.05
"""Between two looks at a lock that another daemon holds."""


class Keyring(Protocol):
    """The keyring of the operating system, behind a time limit."""

    async def is_usable(self) -> bool:
        """Tell whether what is written there can be read back."""

    async def get(self, name: str) -> str | None:
        """Return what is kept under a name; ``None`` where there is nothing, or no answer."""

    async def set(self, name: str, value: str) -> bool:
        """Keep a value; return whether it could be read back."""

    async def delete(self, name: str) -> None:
        """Remove what is kept under a name."""


class Secrets(msgspec.Struct, frozen=True):
    """What is secret of a sign-in: the value in the keyring, as JSON."""

    access_token: str = ""
    refresh_token: str = ""
    client_secret: str = ""


_decode_secrets: Final = msgspec.json.Decoder(Secrets).decode


class Store:
    """The sign-ins of one state directory. Files are read and written in threads."""

    def __init__(self, state_dir: str, keyring: Keyring | None = None) -> None:
        """``keyring`` is ``None`` where secrets are kept in the file alone."""
        self.path: Final = path_in(state_dir)
        self._keyring = keyring
        self._is_usable: bool | None = None

    async def load(self, server: str, url: str) -> Credentials | None:
        """Return the sign-in of a server at a URL.

        One whose secrets have vanished from the keyring has no tokens.

        Raises:
            StoreError: the file cannot be read.
        """
        for kept in await asyncio.to_thread(read, self.path):
            found = kept.credentials
            if found.server == server and found.url == url:
                return await self._with_secrets(found) if kept.in_keyring else found
        return None

    async def prepare(self) -> str:
        """Decide where secrets will be kept, before there are any; return ``keyring`` or ``file``.

        Raises:
            StoreError: the file cannot be read, so nothing could be kept.
        """
        await asyncio.to_thread(read, self.path)
        if self._is_usable is None:
            self._is_usable = self._keyring is not None and await self._keyring.is_usable()
        return "keyring" if self._is_usable else "file"

    async def save(self, credentials: Credentials) -> None:
        """Keep a sign-in in the place of the server's earlier one; return when it is on disk.

        Raises:
            StoreError: the file cannot be read or written.
        """
        in_keyring = await self.prepare() == "keyring" and await self._hide(credentials)
        public = _without_secrets(credentials) if in_keyring else credentials
        await asyncio.to_thread(self._replace, credentials.server, Kept(public, in_keyring))

    async def mark(self, credentials: Credentials) -> None:
        """Keep all of a sign-in but its secrets, which have not changed; as ``save``."""

        def replace(kept: tuple[Kept, ...]) -> tuple[Kept, ...]:
            return tuple(
                Kept(
                    _without_secrets(credentials) if one.in_keyring else credentials, one.in_keyring
                )
                if one.credentials.server == credentials.server
                else one
                for one in kept
            )

        await asyncio.to_thread(change, self.path, replace)

    async def forget(self, server: str) -> None:
        """Remove the sign-in of a server, also from the keyring.

        Raises:
            StoreError: the file cannot be read or written.
        """
        found = [
            each
            for each in await asyncio.to_thread(read, self.path)
            if each.credentials.server == server
        ]
        if found:
            await asyncio.to_thread(self._replace, server, None)
        for each in found:
            if each.in_keyring and self._keyring is not None:
                await self._keyring.delete(_name(each.credentials))

    @contextlib.asynccontextmanager
    async def locked(self, server: str) -> AsyncIterator[None]:
        """Hold the lock for renewing a server's token, against other daemons of this directory.

        Raises:
            StoreError: the lock cannot be made.
        """
        path = f"{self.path}.{paths.file_name(server)}.lock"
        try:
            fd = await asyncio.to_thread(privatefiles.open_lock, path)
        except OSError as error:
            raise StoreError(f"cannot lock {path}: {error.strerror}") from None
        try:
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_POLL_S)
            yield
        finally:
            os.close(fd)

    async def _with_secrets(self, public: Credentials) -> Credentials:
        value = None if self._keyring is None else await self._keyring.get(_name(public))
        try:
            secrets = Secrets() if value is None else _decode_secrets(value)
        except msgspec.MsgspecError:
            secrets = Secrets()
        return msgspec.structs.replace(
            public,
            access_token=secrets.access_token,
            refresh_token=secrets.refresh_token,
            client=msgspec.structs.replace(public.client, client_secret=secrets.client_secret),
        )

    async def _hide(self, credentials: Credentials) -> bool:
        """Put the secrets into the keyring; return whether they are there."""
        assert self._keyring is not None  # it is usable
        secrets = Secrets(
            credentials.access_token, credentials.refresh_token, credentials.client.client_secret
        )
        value = msgspec.json.encode(secrets).decode()
        if await self._keyring.set(_name(credentials), value):
            return True
        self._is_usable = None  # asked again with the next one
        return False

    def _replace(self, server: str, kept: Kept | None) -> None:
        def replace(before: tuple[Kept, ...]) -> tuple[Kept, ...]:
            others = tuple(one for one in before if one.credentials.server != server)
            return others if kept is None else (*others, kept)

        change(self.path, replace)


def _without_secrets(credentials: Credentials) -> Credentials:
    return msgspec.structs.replace(
        credentials,
        access_token="",
        refresh_token="",
        client=msgspec.structs.replace(credentials.client, client_secret=""),
    )


def _name(credentials: Credentials) -> str:
    """Return the name in the keyring: one for each server and issuer."""
    issuer = credentials.issuer or credentials.token_endpoint
    return f"{credentials.server} {issuer}"
