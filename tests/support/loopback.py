"""The two loopback addresses of this machine, and ports that are taken on one of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest


def _listening(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family)


def _has_ipv6() -> bool:
    try:
        _listening("::1").close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")


@contextlib.contextmanager
def taken(host: str) -> Iterator[int]:
    """Listen on a port of this address, and yield the port."""
    with _listening(host) as server:
        yield server.getsockname()[1]
