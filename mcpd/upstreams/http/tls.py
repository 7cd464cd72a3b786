"""Certificates for connections to a server, and to the authorization servers that it names."""

from __future__ import annotations

import ssl


def context(*, ca_file: str = "", client_cert: str = "", client_key: str = "") -> ssl.SSLContext:
    """Return what checks certificates: the system's authorities, and those of ``ca_file``.

    Raises:
        OSError: a file cannot be read; ``ssl.SSLError``, which is one: it holds nothing of use.
    """
    made = ssl.create_default_context()
    if ca_file:
        made.load_verify_locations(ca_file)
    if client_cert:
        made.load_cert_chain(client_cert, client_key or None)
    return made
