"""Looks for what attacks on models are made of, in the definitions of servers.

A finding blocks nothing. **Hard** ones have no honest use in a definition; **soft** ones are words
that attacks use, and that are used otherwise, too. A phrase in a sentence that quotes or describes
it is *noted*: told, and not counted. Everything is deterministic and takes linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from mcpd.core.catalog.attacks.confusables import folded, is_mixed
from mcpd.core.catalog.attacks.payloads import payloads
from mcpd.core.catalog.attacks.phrases import is_described, phrases
from mcpd.core.catalog.canonical import strings
from mcpd.core.catalog.sanitise import Removed, has_unseen, without_invisible

Weight = Literal["hard", "soft", "noted"]

TEXT_MOST: Final = 32 * 1024
"""Characters of one text in which words are looked for. What is cut is not looked at."""

DEFINITION_MOST: Final = 256 * 1024
"""Characters of all texts of a definition in which words are looked for: they are one step."""

SERVER_MOST: Final = 2 * 1024 * 1024
"""Characters of all texts of a list in which words are looked for."""

_EVIDENCE: Final = 200  # characters
_AROUND: Final = 40  # characters before and after what was found
_PARAMETERS: Final = "inputSchema.properties"


class Finding(msgspec.Struct, frozen=True):
    """One finding: where it is, and what it is."""

    kind: str
    """``tool``, ``prompt``, ``resource``, ``template``, ``instructions`` or ``server``."""
    name: str
    cls: str = msgspec.field(name="class")
    weight: Weight
    evidence: str
    place: str = ""
    """The member, as ``inputSchema.properties.x.description``."""


_SINK: Final = re.compile(
    r"^(?:(?:full_?|entire_?|complete_?)?(?:conversation|chat|message|dialog|dialogue)_?(?:history|log|transcript)"
    r"|chain_?of_?thought|system_?prompt|(?:all_)?previous_messages|side_?notes?|(?:available_)?tools?_list"
    r"|.{0,40}(?:ssh|id_rsa|private_key|aws|env_?file|dot_?env).{0,20}content.{0,20}"
    r"|content.{0,40}(?:ssh|id_rsa|private_key|\.env|dot_?env|env_?file|netrc|credentials).{0,40})$",
    re.IGNORECASE,
)
_REFERS: Final = re.compile(
    r"\b(?:instead of|before|after|when(?:ever)?|replaces?|supersedes?|do not use|must)\b",
    re.IGNORECASE,
)
_IDENTIFIER: Final = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)+\b")
_UNSEEN: Final = {
    "unicode.tag": "unicode.tag",
    "unicode.bidi": "unicode.bidi",
    "ansi": "ansi",
}
"""Classes of what is removed that are hard findings."""


def scan_definition(
    kind: str, name: str, tree: Any, *, budget: int = SERVER_MOST
) -> tuple[list[Finding], int, bool]:
    """Return what is found in one definition, how many characters were looked at, and whether all.

    ``budget`` bounds these characters. What cannot be seen is looked for in all of it.
    """
    found: list[Finding] = []
    if is_mixed(name):
        found.append(Finding(kind, name, "name.mixed_script", "hard", visible(name), "name"))
    texts = [
        (".".join(path)[:_EVIDENCE], text)
        for path, text in strings(tree)
        if path[:1] not in (("_meta",), ("icons",))
    ]
    used, is_whole = _scan_texts(found, kind, name, texts, budget)
    if kind == "tool":
        for each in parameters_of(tree):
            if _SINK.match(each):
                shown = visible(each[:_EVIDENCE])
                found.append(Finding(kind, name, "param.sink", "soft", shown, _PARAMETERS))
            if has_unseen(each):
                _scan_unseen(found, kind, name, _PARAMETERS, each)
    return found, used, is_whole


def scan_text(kind: str, name: str, text: str) -> tuple[list[Finding], int, bool]:
    """Return what is found in one text, as ``scan_definition`` does."""
    found: list[Finding] = []
    used, is_whole = _scan_texts(found, kind, name, [("", text)], SERVER_MOST)
    return found, used, is_whole


def _scan_texts(
    found: list[Finding], kind: str, name: str, texts: list[tuple[str, str]], budget: int
) -> tuple[int, bool]:
    """Look at all texts of a definition at once; tell how much was looked at, and whether all."""
    if has_unseen("\n".join(text for _, text in texts)):
        for place, text in texts:
            _scan_unseen(found, kind, name, place, text)
        texts = [(place, without_invisible(text, Removed())) for place, text in texts]
    budget = min(budget, DEFINITION_MOST)
    pieces: list[str] = []
    starts: list[int] = []
    used, is_whole = 0, True
    for _, text in texts:
        looked = text[: max(0, min(TEXT_MOST, budget - used))]
        is_whole = is_whole and len(looked) == len(text)
        starts.append(used)
        used += len(looked) + 1
        pieces.append(looked)
    whole = "\n".join(pieces)

    def place_at(position: int) -> str:
        return texts[bisect_right(starts, position) - 1][0]

    found += [
        Finding(
            kind,
            name,
            "payload.shell",
            "hard",
            visible(" ".join(command.split()))[:_EVIDENCE],
            place_at(at),
        )
        for at, command in payloads(whole)
    ]
    for cls, spans in phrases(whole):
        shown: set[tuple[str, Weight]] = set()
        shown_to = -1
        for begin, end in spans:
            weight: Weight = "noted" if is_described(whole, begin, end) else "soft"
            place = place_at(begin)
            if end <= shown_to and (place, weight) in shown:
                continue  # the last one of that place shows it
            shown.add((place, weight))
            shown_to = end + _AROUND
            around = whole[max(0, begin - _AROUND) : end + _AROUND]
            around = visible(" ".join(around.split()))[:_EVIDENCE]
            found.append(Finding(kind, name, cls, weight, around, place))
    return used, is_whole


def parameters_of(tree: Any) -> list[str]:
    """Return the names of a tool's parameters, those that are only said to be required, too."""
    found: dict[str, None] = {}
    for member, schema in tree if isinstance(tree, list) else ():
        if member == "inputSchema" and isinstance(schema, list):
            for name, value in (each for each in schema if isinstance(each, tuple)):
                if name == "properties" and isinstance(value, list):
                    found.update((each[0], None) for each in value if isinstance(each, tuple))
                elif name == "required" and isinstance(value, list):
                    found.update((each, None) for each in value if isinstance(each, str))
    return list(found)


def mentions(tree: Any) -> frozenset[str]:
    """Return the names in a tool's description that are said to be used otherwise than they say."""
    found: set[str] = set()
    for path, text in strings(tree):
        if path == ("description",) and _REFERS.search(looked := text[:TEXT_MOST]) is not None:
            found.update(_IDENTIFIER.findall(looked))
    return frozenset(found)


def look_alikes(names: Iterable[str], others: Iterable[str] = ()) -> dict[str, str]:
    """Return the names that look like another one, each with that one.

    Names that differ in nothing but case are no look-alikes, nor are the same names. ``others`` are
    those of other servers. Of two names the one that is not ASCII is the look-alike, or the one
    with digits, else the later.
    """
    seen: dict[str, str] = {}
    alike: dict[str, str] = {}
    for name in others:
        seen.setdefault(folded(name), name)
    for name in sorted(names, key=_oddness):
        known = seen.setdefault(folded(name), name)
        if known.casefold() != name.casefold():
            alike[name] = known
    return alike


def _oddness(name: str) -> tuple[bool, bool]:
    return not name.isascii(), any(each.isdigit() for each in name)


def _scan_unseen(found: list[Finding], kind: str, name: str, place: str, text: str) -> None:
    removed = Removed()
    without_invisible(text, removed)
    for cls, count in sorted(removed.counts.items()):
        if cls not in _UNSEEN:
            continue
        evidence = f"{count} of {', '.join(sorted(removed.characters)[:6])}"
        if cls == "unicode.tag":
            evidence = "".join(removed.hidden)[:_EVIDENCE] or evidence
        found.append(Finding(kind, name, cls, "hard", evidence, place))


def visible(text: str) -> str:
    """Return a text with each character that cannot be seen as ``⟨U+200B⟩``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else f"⟨U+{ord(each):04X}⟩" for each in text
    )
