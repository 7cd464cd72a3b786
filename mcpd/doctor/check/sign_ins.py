"""Checks where the sign-ins to remote servers are kept."""

from __future__ import annotations

from collections.abc import Iterator

from mcpd.doctor.facts import SignIns
from mcpd.doctor.finding import Finding, error, fine, note


def check(found: SignIns | None) -> Iterator[Finding]:
    """Yield the findings; none where nobody has signed in to a server."""
    if found is None:
        return
    if found.trouble is not None:
        remedy = found.remedy or f"remove {found.path}, then sign in again: mcpctl login NAME"
        yield error("sign_ins_unusable", f"sign-ins cannot be used: {found.trouble}", remedy)
    if found.in_keyring:
        servers = ", ".join(found.in_keyring)
        yield fine("sign_ins_keyring", f"in the keyring: the sign-ins to {servers}")
    if found.in_file:
        servers = ", ".join(found.in_file)
        yield note(
            "sign_ins_file",
            f"in {found.path}, which only you can read: the sign-ins to {servers}; "
            f"there was no keyring that could be used",
        )
