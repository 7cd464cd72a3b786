"""Addresses that the daemon listens on for HTTP, as the configuration writes them."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

UNIX: Final = "unix:"
MOST_PORT: Final = 65535

_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]+):([0-9]{1,5})")


class Address(NamedTuple):
    """One address: ``host`` and ``port``, or the path of a Unix socket."""

    text: str
    host: str | None
    port: int = 0
    path: str | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host is None or self.host == "localhost":
            return True
        return ipaddress.ip_address(self.host).is_loopback


def parse(text: str) -> Address | None:
    """Return an address, ``None`` for a text that is none.

    A host is an IP address or ``localhost``: a name could mean another address tomorrow.
    """
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        return Address(text, None, path=path) if path.startswith("/") else None
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or not 1 <= int(found[2]) <= MOST_PORT:
        return None
    host = found[1].strip("[]")
    if host != "localhost":
        try:
            is_bracketed = ipaddress.ip_address(host).version == 6
        except ValueError:
            return None
        if is_bracketed != found[1].startswith("["):
            return None
    return Address(text, host, int(found[2]))
