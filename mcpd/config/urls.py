"""URLs of remote servers and of proxies: which ones can be used, and what of them may be shown."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_ODD: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""Characters that URL parsers drop or read in different ways."""


def fault_of(url: str, *, allow_insecure: bool) -> str | None:
    """Return what is wrong with the URL of a remote server, or ``None``. Contains no part of it."""
    parts = _split(url)
    if isinstance(parts, str):
        return parts
    if "@" in parts.netloc:
        return 'expected a URL without credentials: they belong in auth, such as { type = "basic" }'
    if "#" in url:
        return 'expected a URL without a fragment ("#…")'
    if parts.scheme == "http" and not (allow_insecure or is_loopback(parts.hostname or "")):
        return (
            "expected https://, because anyone on the way can read and change http:// to another "
            "machine; if that is no risk here: allow_insecure = true"
        )
    return None


def proxy_fault_of(url: str) -> str | None:
    """Return what is wrong with the URL of a proxy, or ``None``. It may have credentials."""
    parts = _split(url)
    return f'{parts}, or "env", or "none"' if isinstance(parts, str) else None


def document_fault_of(url: str) -> str | None:
    """Return what is wrong with the URL of a client metadata document, or ``None``."""
    parts = _split(url)
    if isinstance(parts, str):
        return parts
    if parts.scheme != "https" or parts.path in ("", "/") or "@" in parts.netloc or "#" in url:
        return "expected the https:// URL of a document, with a path"
    return None


def is_loopback(host: str) -> bool:
    """Return whether a host is always this machine. Other names could lead anywhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def public_part(url: str) -> str:
    """Return a URL, or text that should be one, without credentials, query and fragment."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    return re.sub(r"://[^/]*@", "://", bare)


def _split(url: str) -> SplitResult | str:
    """Return the parts of a URL of HTTP, or what is wrong with it."""
    if _ODD.search(url):
        return "expected a URL without blanks, control characters and backslashes"
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is out of range
    except ValueError:
        return "expected a URL such as https://mcp.example.com/mcp"
    if parts.scheme not in ("http", "https"):
        return "expected a URL that begins with https://"
    if not parts.hostname:
        return "expected a URL with a host, such as https://mcp.example.com/mcp"
    return parts
