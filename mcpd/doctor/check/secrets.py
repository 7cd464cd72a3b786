"""Checks that the secrets are there that entries name, and where they are kept."""

from __future__ import annotations

from collections.abc import Iterator

from mcpd.doctor.facts import Secrets
from mcpd.doctor.finding import Finding, error, note, warning


def check(found: Secrets | None) -> Iterator[Finding]:
    """Yield the findings; none where no entry names a secret and none is kept."""
    if found is None:
        return
    if found.trouble is not None:
        remedy = found.remedy or f"remove {found.path}, then set them again: mcpctl secret set NAME"
        yield error("secrets_unusable", f"secrets cannot be used: {found.trouble}", remedy)
        return
    has_keyring = found.mode in ("auto", "system") and found.problem is None
    if found.in_file:
        yield warning(
            "secrets_file",
            f"in the clear in {found.path}, which only you can read: {', '.join(found.in_file)}",
            "mcpctl secret move" if has_keyring else "where there is a keyring: mcpctl secret move",
        )
    yield from _of_keyring(found)
    for server, name in found.missing:
        if found.problem in ("locked", "unavailable"):
            continue  # it may be there
        message = f"{server} cannot start: there is no secret {name}"
        yield error("secret_missing", message, f"mcpctl secret set {name}", server)


def _of_keyring(found: Secrets) -> Iterator[Finding]:
    names = ", ".join(dict.fromkeys(name for _, name in found.missing))
    if found.problem == "none":
        if found.mode == "system":
            remedy = 'install one, or write [trust] keyring = "file"'
            yield error("keyring_missing", "there is no keyring here, which secrets need", remedy)
        else:
            yield note("keyring_missing", f"there is no keyring here: secrets are in {found.path}")
    elif found.problem is not None and names:
        what = "is locked or did not answer" if found.problem == "locked" else "cannot be used"
        yield warning(
            "keyring_unusable",
            f"the keyring {what}; these secrets may be there: {names}",
            "unlock the keyring, then again: mcpctl doctor",
        )
