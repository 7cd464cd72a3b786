"""The version and capabilities that ``initialize`` offers, and the next offer after a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp import codes
from mcpd.core.mcp.versions import LEGACY, NEWEST_LEGACY, Era
from mcpd.core.wire import envelope

Capabilities = Mapping[str, Raw | bytes]
"""A client's capabilities by name, each as JSON."""


class Omission(Enum):
    """Which capabilities an offer leaves out."""

    NOTHING = "nothing"
    DETAILS = "details"
    """Those newer than 2025-06-18: the members of ``elicitation``, and ``extensions``."""
    ELICITATION = "elicitation"
    """Also ``elicitation`` itself."""
    EVERYTHING = "everything"
    """All of them."""


class Offer(msgspec.Struct, frozen=True):
    """The version and the capabilities of one ``initialize``."""

    version: str = NEWEST_LEGACY
    omission: Omission = Omission.NOTHING


FULL: Final = Offer()

_ABOUT_REQUESTS: Final = frozenset(
    b"%d" % code
    for code in (
        codes.PARSE_ERROR,
        codes.INVALID_REQUEST,
        codes.INVALID_PARAMS,
        codes.INTERNAL_ERROR,
        codes.UNSUPPORTED_VERSION,
    )
)
"""Codes of errors with which servers refuse parameters that they do not understand."""


class Verdict(msgspec.Struct, frozen=True):
    """How the last handshake succeeded: the era, and for a legacy server the offer it accepted."""

    era: Era
    offer: Offer = FULL


def reduce_capabilities(capabilities: Capabilities, omission: Omission) -> dict[str, Raw | bytes]:
    """Return the capabilities without those that ``omission`` leaves out."""
    if omission is Omission.EVERYTHING:
        return {}
    kept = dict(capabilities)
    if omission is not Omission.NOTHING:
        kept.pop("extensions", None)
        if "elicitation" in kept:
            kept["elicitation"] = b"{}"
    if omission is Omission.ELICITATION:
        kept.pop("elicitation", None)
    return kept


def omitted_capabilities(capabilities: Capabilities, omission: Omission) -> tuple[str, ...]:
    """Return the omitted names, such as ``elicitation.form``, ``extensions`` or ``sampling``."""
    kept = reduce_capabilities(capabilities, omission)
    found: list[str] = []
    for name, value in capabilities.items():
        if name not in kept:
            found.append(name)
        elif bytes(kept[name]) != bytes(value):
            found += [f"{name}.{member}" for member in envelope.object_of(value) or {}]
    return tuple(found)


class Offers:
    """The offers of one start, from the fullest to the least, each made once.

    If the error names the supported revisions, the newest of them that we know is offered next. If
    it mentions a version, the next older one is. After any other error capabilities are left out
    first, because servers have many errors for a capability that they do not know. If a server
    refuses an offer without any, they were not the reason: older revisions are offered with all.
    """

    def __init__(self, capabilities: Capabilities, first: Offer = FULL) -> None:
        self.offer = first
        """The offer that was made last, or that is made next."""
        self._capabilities = capabilities
        self._made: set[Offer] = set()
        self._may_omit = True

    def prefer(self, versions: Collection[str]) -> None:
        """Choose the newest of these revisions that we know, if there is one."""
        shared = [version for version in LEGACY if version in versions]
        if shared:
            self.offer = Offer(shared[-1], self.offer.omission)

    def advance(self, error: Raw | bytes) -> bool:
        """Choose the offer to make after this error; return ``False`` if none is left."""
        if not self._is_about_us(error):
            return False
        before = self.offer
        self._made.add(before)
        self.prefer(supported_versions(error))
        if self.offer != before:
            return self.offer not in self._made
        fewer = self._fewer()
        older = LEGACY[: LEGACY.index(before.version)]
        if fewer is not None and not (older and _speaks_of_version(error)):
            self.offer = fewer
        elif older:
            self._may_omit = fewer is not None
            self.offer = Offer(older[-1], before.omission if self._may_omit else Omission.NOTHING)
        return self.offer not in self._made

    def _is_about_us(self, error: Raw | bytes) -> bool:
        """Tell whether the offer may have caused an error, unlike, say, a missing licence."""
        members = envelope.object_of(error) or {}
        if bytes(members.get("code", b"")) in _ABOUT_REQUESTS or supported_versions(error):
            return True
        said = _message_of(error)
        return any(word in said for word in ("version", "capabilit", *self._capabilities))

    def _fewer(self) -> Offer | None:
        """Return the next offer with fewer capabilities, or ``None`` if there is none."""
        if self._may_omit:
            now = reduce_capabilities(self._capabilities, self.offer.omission)
            omissions = list(Omission)
            for omission in omissions[omissions.index(self.offer.omission) + 1 :]:
                if reduce_capabilities(self._capabilities, omission) != now:
                    return Offer(self.offer.version, omission)
        return None


def supported_versions(error: Raw | bytes | None) -> tuple[str, ...]:
    """Return the revisions that an error names in ``data.supported`` (2024-11-05, lifecycle)."""
    members = (envelope.object_of(error) if error is not None else None) or {}
    data = envelope.object_of(members["data"]) if "data" in members else None
    found = envelope.elements_of((data or {}).get("supported", Raw(b"[]"))) or ()
    return tuple(text for text in map(envelope.text, found) if text is not None)


def _speaks_of_version(error: Raw | bytes) -> bool:
    members = envelope.object_of(error) or {}
    is_so_named = bytes(members.get("code", b"")) == b"%d" % codes.UNSUPPORTED_VERSION
    return is_so_named or "version" in _message_of(error)


def _message_of(error: Raw | bytes) -> str:
    members = envelope.object_of(error) or {}
    return (envelope.text(members.get("message", Raw(b'""'))) or "").lower()
