"""Which addresses may be used that a server or its metadata name, and nobody configured.

Without these rules a remote server could have us send requests into the network we are in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS: Final = {"http": 80, "https": 443}


class AddressRefused(Exception):
    """An address that was discovered must not be used; the message names it and says why."""


class Policy:
    """The rules for one server: where it is decides what it may name."""

    def __init__(self, url: str, resolved: Iterable[str] = ()) -> None:
        """``url`` is that of the server, ``resolved`` the addresses that its host name has."""
        self._origin = origin(url)
        found = [each for each in map(address_of, resolved) if each is not None]
        literal = address_of(host_of(url))
        if literal is not None:
            found = [literal]
        is_named_local = host_of(url) in ("localhost", "") or host_of(url).endswith(".localhost")
        self._is_loopback = is_named_local or (
            bool(found) and all(each.is_loopback for each in found)
        )
        self._is_private = bool(found) and all(
            not each.is_global and not each.is_loopback for each in found
        )

    def check_url(self, url: str) -> None:
        """Check scheme and host of an address.

        Raises:
            AddressRefused: it must not be used.
        """
        if origin(url) == self._origin:
            return
        try:
            parts = urlsplit(url)
        except ValueError:
            raise AddressRefused(f"{_printable(url[:200])} is no address") from None
        host = host_of(url)
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
        if parts.scheme not in _PORTS or not host:
            raise AddressRefused(f"{_printable(shown)} is not an https address")
        if parts.username or parts.password:
            raise AddressRefused(f"{_printable(shown)} has a user name in it")
        literal = address_of(host)
        is_loopback = host == "localhost" or (literal is not None and literal.is_loopback)
        if parts.scheme == "http" and not (is_loopback and self._is_loopback):
            raise AddressRefused(f"{_printable(shown)} is not https")
        if is_loopback and not self._is_loopback:
            raise AddressRefused(f"{_printable(shown)} is on this machine, and the server is not")
        if literal is not None:
            self.check_address(str(literal), shown)

    def check_address(self, text: str, shown: str) -> None:
        """Check an address that a host name has; ``shown`` is what had it.

        Raises:
            AddressRefused: it must not be connected to.
        """
        found = address_of(text)
        if found is None:
            return
        if found.is_loopback:
            if not self._is_loopback:
                raise AddressRefused(f"{_printable(shown)} is on this machine ({found})")
        elif not found.is_global and not self._is_private:
            raise AddressRefused(f"{_printable(shown)} is in a private network ({found})")

    def is_own(self, host: str) -> bool:
        """Tell whether a host is that of the server itself, which was configured."""
        return host == self._origin[1]


def address_of(host: str) -> Address | None:
    """Return the IP address that a host is; ``None`` for a name."""
    try:
        found = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped: ipaddress.IPv4Address | None = getattr(found, "ipv4_mapped", None)
    return found if mapped is None else mapped


def host_of(url: str) -> str:
    """Return the host of an address in lower case, empty where there is none."""
    try:
        return (urlsplit(url).hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def is_loopback(url: str) -> bool:
    """Tell whether an address is on this machine, as it is written."""
    host = host_of(url)
    found = address_of(host)
    return host == "localhost" or (found is not None and found.is_loopback)


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address; the port is -1 where it has none of its own."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, -1)
    except ValueError:
        return ("", "", -1)
    return (parts.scheme, host_of(url), port)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
