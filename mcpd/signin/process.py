"""Orders to the process for signing in, which is started for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from mcpd.errors import McpdError
from mcpd.schemas.channel import Channel, Process
from mcpd.signin.protocol import (
    ADDRESS,
    ARGV,
    DONE,
    ENVIRONMENT,
    FAILED,
    REFUSED,
    Address,
    KeyringOrder,
    Order,
    Pasted,
    Refusal,
    Value,
)

KEYRING_S: Final = 10.0
"""Seconds after which a keyring that does not answer counts as none: it may show a prompt."""

DISCOVERY_S: Final = 90.0

Spawn = Callable[[list[str], tuple[str, ...]], Process]
"""Starts a command line with these variables, and with pipes as its stdin and stdout.

Raises ``OSError`` or ``McpdError``.
"""

_Result = TypeVar("_Result", bound=msgspec.Struct)


class OrderFailed(Exception):
    """The process could not do it; the message says why, for people."""


class NoAnswer(OrderFailed):
    """The process did not do it in time."""


class Running:
    """One order that is being carried out."""

    def __init__(self, spawn: Spawn, order: Order, result: type[Any]) -> None:
        """Start the process.

        Raises:
            OrderFailed: it cannot be started.
        """
        self.address: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """The address that a person is to open; ``None`` where the result came first."""
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._type = result
        self._pasted: asyncio.Future[str] | None = None
        try:
            process = spawn(list(ARGV), ENVIRONMENT)
        except (OSError, McpdError) as error:
            raise OrderFailed(f"the process for signing in cannot be started: {error}") from None
        self.pid = process.pid
        self._channel = Channel(process, self._answered, self._ended)
        self._send(order)
        for future in (self.address, self.result):
            future.add_done_callback(_seen)

    def paste(self, address: str) -> asyncio.Future[str]:
        """Pass the address on at which the browser ended.

        The future has why it was refused; it stays open where it was taken.
        """
        self._pasted = asyncio.get_running_loop().create_future()
        self._send(Pasted(address))
        return self._pasted

    def end(self, reason: str = "the sign-in was given up") -> None:
        """End the process, if it still runs."""
        self._channel.kill()
        self._fail(reason)

    def _send(self, body: msgspec.Struct) -> None:
        self._channel.send(msgspec.json.encode(body) + b"\n")

    def _answered(self, kind: bytes, body: bytes) -> None:
        try:
            if kind == ADDRESS and not self.address.done():
                self.address.set_result(msgspec.json.decode(body, type=Address).url)
            elif kind == REFUSED and self._pasted is not None and not self._pasted.done():
                self._pasted.set_result(msgspec.json.decode(body, type=Refusal).message)
            elif kind == FAILED:
                self._fail(msgspec.json.decode(body, type=Refusal).message)
            elif kind == DONE and not self.result.done():
                self.result.set_result(msgspec.json.decode(body, type=self._type))
                if not self.address.done():
                    self.address.set_result(None)
        except msgspec.MsgspecError:  # its message could quote a secret
            self._fail("the process for signing in gave an answer that is none")

    def _ended(self) -> None:
        self._fail("the process for signing in has ended")

    def _fail(self, reason: str) -> None:
        for future in (self.result, self.address):
            if not future.done():
                future.set_exception(OrderFailed(reason))


async def carry_out(spawn: Spawn, order: Order, result: type[_Result], timeout: float) -> _Result:
    """Have an order carried out and return its result, within ``timeout`` seconds.

    Raises:
        OrderFailed: it was not done; ``NoAnswer``: not in time.
    """
    running = Running(spawn, order, result)
    try:
        async with asyncio.timeout(timeout):
            found: _Result = await running.result
            return found
    except TimeoutError:
        raise NoAnswer(f"there was no answer within {timeout:g} s") from None
    finally:
        running.end()


class KeyringProcess:
    """The keyring, each use of it in a process that is killed when it does not answer."""

    def __init__(self, spawn: Spawn, service: str, timeout: float = KEYRING_S) -> None:
        """``service`` is the name under which the keyring shows what is ours."""
        self._spawn = spawn
        self._service = service
        self._timeout = timeout

    async def is_usable(self) -> bool:
        """Tell whether what is written there can be read back."""
        return (await self._use(KeyringOrder(service=self._service, action="probe"))).is_done

    async def get(self, name: str) -> str | None:
        """Return what is kept under a name; ``None`` where there is nothing, or no answer."""
        order = KeyringOrder(service=self._service, action="get", name=name)
        return (await self._use(order)).value

    async def find(self, names: tuple[str, ...]) -> Value:
        """Return what is kept under several names, or the problem."""
        return await self._use(KeyringOrder(service=self._service, action="find", names=names))

    async def set(self, name: str, value: str) -> bool:
        """Keep a value; return whether it could be read back."""
        order = KeyringOrder(service=self._service, action="set", name=name, value=value)
        return (await self._use(order)).is_done

    async def delete(self, name: str) -> None:
        """Remove what is kept under a name."""
        await self._use(KeyringOrder(service=self._service, action="delete", name=name))

    async def _use(self, order: KeyringOrder) -> Value:
        try:
            return await carry_out(self._spawn, order, Value, self._timeout)
        except NoAnswer:
            return Value(problem="locked")
        except OrderFailed:
            return Value(problem="unavailable")


def _seen(future: asyncio.Future[Any]) -> None:
    """Mark an exception as seen: not everybody waits for both futures."""
    if not future.cancelled():
        future.exception()
