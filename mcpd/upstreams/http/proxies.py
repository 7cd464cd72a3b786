"""Which proxy a request goes through, as the environment or an entry says."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from mcpd.config.urls import is_loopback


def proxy_for(url: str, setting: str, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for a URL, ``None`` for none.

    ``setting`` is ``env``, ``none`` or a URL. The proxy of the environment never applies to this
    machine itself.
    """
    if setting != "env":
        return None if setting == "none" else setting
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or _is_excluded(host, parts.port, _variable(environment, "no_proxy")):
        return None
    found = _variable(environment, f"{parts.scheme}_proxy") or _variable(environment, "all_proxy")
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    """Return a variable, whose name in lower case comes first."""
    return environment.get(name) or environment.get(name.upper()) or ""


def _is_excluded(host: str, port: int | None, excluded: str) -> bool:
    for entry in excluded.replace(",", " ").split():
        if entry == "*":
            return True
        name, _, number = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if number and number != str(port):
            continue
        name = name.removeprefix("*").lstrip(".").lower()
        if host.lower() == name or host.lower().endswith(f".{name}") or _is_in(host, name):
            return True
    return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
