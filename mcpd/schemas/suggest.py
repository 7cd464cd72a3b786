"""Finds names similar to one that does not exist, for "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

MAX_CANDIDATES: Final = 2_000
MAX_LENGTH: Final = 100
_EXACT_COMPARISONS: Final = 20  # the exact measure is slow: only the best by the fast one get it
_LEAST_RATIO: Final = 0.6


def nearest(name: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """Return up to ``n`` candidates similar to ``name``, the most similar first.

    Only the first 2,000 candidates and their first 100 characters are compared, so this takes a few
    milliseconds regardless of what a server lists. Case is ignored.
    """
    wanted = name[:MAX_LENGTH].casefold()
    pairs = _pairs(wanted)
    unique = dict.fromkeys(islice(candidates, MAX_CANDIDATES))
    ranked = sorted(unique, key=lambda candidate: -_share(pairs, candidate))
    matcher = SequenceMatcher(b=wanted, autojunk=False)
    scored: list[tuple[float, str]] = []
    for candidate in ranked[:_EXACT_COMPARISONS]:
        matcher.set_seq1(candidate[:MAX_LENGTH].casefold())
        scored.append((matcher.ratio(), candidate))
    scored.sort(key=lambda pair: -pair[0])
    return [candidate for score, candidate in scored if score >= _LEAST_RATIO][:n]


def _pairs(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[at : at + 2] for at in range(len(padded) - 1)}


def _share(pairs: set[str], candidate: str) -> float:
    others = _pairs(candidate[:MAX_LENGTH].casefold())
    return len(pairs & others) / len(pairs | others)
