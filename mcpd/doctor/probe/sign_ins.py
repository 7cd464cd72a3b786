"""Looks where the sign-ins to remote servers are kept, without their secrets."""

from __future__ import annotations

from mcpd.doctor.facts import SignIns
from mcpd.signin import file
from mcpd.signin.file import StoreError


def sign_ins(state_dir: str) -> SignIns:
    """Return where the sign-ins of a state directory are kept."""
    path = file.path_in(state_dir)
    try:
        found = file.read(path)
    except StoreError as error:
        return SignIns(path=path, trouble=error.message, remedy=error.hint)
    return SignIns(
        path=path,
        in_keyring=tuple(each.credentials.server for each in found if each.in_keyring),
        in_file=tuple(each.credentials.server for each in found if not each.in_keyring),
    )
