"""Removes what a person or a terminal cannot see, and a model can, from texts and from JSON.

Every other byte stays as it came. All functions are deterministic, and what they return is clean:
a second time changes nothing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from mcpd.core.wire import envelope

Level = Literal["off", "invisible", "strict"]

TEXT_MOST: Final = 32 * 1024
"""Characters of one text; the rest is cut."""

STRICT_MOST: Final = 4_000
"""Characters of one text, where ``strict``."""

_LOOKED: Final = 4 * TEXT_MOST  # characters of one text that are looked at
_NOTE: Final = 48  # characters of the note of what is cut: with it, a text is not cut again

_ANSI: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])"  # OSC, DCS, …; another one inside is looked at next
    r"[^\x07\x1b\x9c\x9d\x90\x98\x9e\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
)
_FLAG: Final = (
    "\U0001f3f4[\U000e0061-\U000e007a]{2}"
    "[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}\U000e007f"
)
_SEQUENCE: Final = re.compile(_ANSI)
_TAGS: Final = re.compile(f"(?P<flag>{_FLAG})|[\U000e0000-\U000e007f]+")
_PLAIN: Final = {
    "unicode.bidi": re.compile("[\u202a-\u202e\u2066-\u2069]"),
    "unicode.invisible": re.compile(
        "[\u200b\u2060-\u2064\ufeff\u00ad\u180e\ufff9-\ufffb\U000e0100-\U000e01ef]"
    ),
    "control": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)"),  # after the others
}
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f]+")
_JOINERS: Final = re.compile(r"(?<=[\x00-\x7f])[\u200c\u200d]+(?=[\x00-\x7f])")
_SUSPECT: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069"
    "\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e01ef]"
)
_SEEN: Final = b"\t\n" + bytes(range(0x20, 0x7F))
"""All of ASCII that ``_SUSPECT`` does not have."""

_TAKES_SELECTOR: Final = frozenset(("So", "Sm", "Sk", "Sc", "Po", "Pd", "Ps", "Pe", "Lo"))
_KEYCAPS: Final = "0123456789#*"

# what ``strict`` adds
_TAG: Final = re.compile(
    r"<(/?\s{0,8}(?:important|system|instructions?|secrets?|hidden|critical|override|assistant|user)"
    r"(?:[\s/][^<>]{0,200})?)>",
    re.IGNORECASE,
)
_MARKER: Final = re.compile(r"<\|([^|<>\n]{1,64})\|>")
_INST: Final = re.compile(r"\[(/?INST)\]", re.IGNORECASE)
_IMAGE: Final = re.compile(
    r"!\[([^\[\]]{0,1000})\]\(\s{0,8}(?:https?:)?//[^()\s]{0,2000}+[^()]{0,200}+\)", re.IGNORECASE
)
_LINK: Final = re.compile(
    r"\[([^\[\]]{0,1000})\]\(\s{0,8}(?:javascript|data):[^()]{0,4000}\)", re.IGNORECASE
)
_SHOWN: Final = 16  # characters of a removed text that are told
_ROUNDS: Final = 8  # of removing what appears when something else is removed


class Removed:
    """What was removed from texts: how much of each class, which characters, and hidden text."""

    __slots__ = ("characters", "counts", "hidden")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Characters or sequences, by class."""
        self.characters: set[str] = set()
        """As ``U+200B``."""
        self.hidden: list[str] = []
        """What TAG characters spell."""

    def add(self, name: str, text: str, count: int | None = None) -> None:
        """Note that a text of some class was removed."""
        self.counts[name] += len(text) if count is None else count
        shown = text[:1] if name == "ansi" else text[:_SHOWN]
        self.characters.update(f"U+{ord(each):04X}" for each in shown)
        if name == "unicode.tag" and (found := decoded_tags(text)):
            self.hidden.append(found)

    def __bool__(self) -> bool:
        return bool(self.counts)


def decoded_tags(text: str) -> str:
    """Return what TAG characters spell in ASCII."""
    return "".join(chr(ord(each) - 0xE0000) for each in text if 0xE0020 <= ord(each) <= 0xE007E)


def clean_text(text: str, level: Level = "invisible", removed: Removed | None = None) -> str:
    """Return a text without what nobody can see; ``removed`` is told what that was."""
    if level == "off":
        return text
    removed = Removed() if removed is None else removed
    beyond = len(text) - _LOOKED
    found = without_invisible(text[:_LOOKED] if beyond > 0 else text, removed)
    if level == "strict":
        found = defused(found, removed)
    return _cut(found, STRICT_MOST if level == "strict" else TEXT_MOST, max(0, beyond), removed)


def has_unseen(text: str) -> bool:
    """Tell whether a text has any character that may have to be removed."""
    if text.isascii():
        return bool(text.encode().translate(None, _SEEN))  # a tenth of the time of a search
    return _SUSPECT.search(text) is not None


def without_invisible(text: str, removed: Removed) -> str:
    """Return a text of any length without invisible characters and control sequences."""
    if not has_unseen(text):
        return text

    def sequence(match: re.Match[str]) -> str:
        removed.add("ansi", match[0], 1)
        return ""

    def tag(match: re.Match[str]) -> str:
        if match["flag"]:
            return match[0]  # England, Scotland, Wales
        removed.add("unicode.tag", match[0])
        return ""

    text = _TAGS.sub(tag, _SEQUENCE.sub(sequence, text))
    for name, pattern in _PLAIN.items():
        found = pattern.sub("", text)
        if len(found) != len(text):
            gone = sorted({*text} - {*found})[:_SHOWN]
            removed.add(name, "".join(gone), len(text) - len(found))
            text = found

    def selector(match: re.Match[str]) -> str:
        keeps = 1 if _takes_selector(match.string, match.start()) else 0
        if match[0][keeps:]:
            removed.add("unicode.selector", match[0][keeps:])
        return match[0][:keeps]

    def joiner(match: re.Match[str]) -> str:
        removed.add("unicode.joiner", match[0])
        return ""

    return _JOINERS.sub(joiner, _SELECTORS.sub(selector, text))


def _takes_selector(text: str, at: int) -> bool:
    """Tell whether the character before ``at`` can be shown in several ways."""
    if at == 0:
        return False
    base = text[at - 1]
    if base.isascii():
        return base in _KEYCAPS
    if unicodedata.category(base) in _TAKES_SELECTOR:
        return True
    return "\u2100" <= base <= "\u214f" or "\U0001d400" <= base <= "\U0001d7ff"


def defused(text: str, removed: Removed) -> str:
    """Return a text whose instructions to a model are marked as text."""

    def bracketed(match: re.Match[str]) -> str:
        removed.add("strict.tag", "", 1)
        inner = match[1] if match.re is not _MARKER else f"|{match[1]}|"
        return f"\u2039{inner}\u203a"

    def link(match: re.Match[str]) -> str:
        removed.add("strict.link", "", 1)
        return match[1]

    for _ in range(_ROUNDS):
        found = _without_comments(text, removed)
        for pattern in (_TAG, _MARKER, _INST):
            found = pattern.sub(bracketed, found)
        found = _LINK.sub(link, _IMAGE.sub(link, found))
        if found == text:
            break
        text = found
    return text


def _without_comments(text: str, removed: Removed) -> str:
    kept, at = [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        kept.append(text[at:begin])
        at = end + 3
        removed.add("strict.comment", "", 1)
    return "".join((*kept, text[at:])) if kept or at else text


def _cut(text: str, most: int, beyond: int, removed: Removed) -> str:
    """Return the beginning of a text of which ``beyond`` characters were not even looked at."""
    if len(text) <= most and not beyond:
        return text
    keeps = min(len(text), most - _NOTE)
    count = len(text) - keeps + beyond
    removed.add("cut", "", count)
    return f"{text[:keeps]}… [mcpd: {count} characters cut]"


# -- JSON ------------------------------------------------------------------------------------------

_CLEAN: Final = re.compile(rb"[^\x09\x0a\x0d\x20-\x7e]|\\[ubfr]")
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]', re.DOTALL)

Path = tuple[str, ...]
Selects = Callable[[Path], bool]

_NEVER: Final = frozenset(("name", "uri", "uriTemplate", "_meta", "icons"))  # at the top
_ARGUMENT: Final = ("arguments", "name")  # of a prompt
_IDENTIFIERS: Final = frozenset(
    ("required", "pattern", "$ref", "$id", "$anchor", "$dynamicRef", "$schema")
)


def is_text_of_definition(path: Path) -> bool:
    """Tell whether a string of a definition is text: no name, and nothing that names something."""
    if not path:
        return True
    return path[0] not in _NEVER and path[-1] not in _IDENTIFIERS and path != _ARGUMENT


def is_text_of_result(path: Path) -> bool:
    """Tell whether a string of a call's result is text that a client shows to its model."""
    if path[:1] == ("structuredContent",):
        return True
    return path in (("content", "text"), ("content", "resource", "text"))


def is_clean(raw: bytes, level: Level = "invisible") -> bool:
    """Tell without parsing whether JSON has nothing to remove; ``False`` where it may have."""
    if level == "off":
        return True
    return level == "invisible" and len(raw) <= TEXT_MOST and _CLEAN.search(raw) is None


def clean_json(
    raw: bytes,
    level: Level,
    removed: Removed,
    selects: Selects = is_text_of_definition,
    clean: Callable[[str, Level, Removed], str] = clean_text,
) -> bytes:
    """Return JSON whose texts are clean; every byte outside them is as it was.

    Raises:
        ValueError: it is no JSON.
    """
    if is_clean(raw, level):
        return raw
    source = raw.decode()
    kept: list[str] = []
    at = 0
    for begin, end, path in _string_values(source):
        if not selects(path):
            continue
        text = json.loads(source[begin:end], strict=False)
        found = clean(text, level, removed)
        if found != text:
            kept += (source[at:begin], quoted(found))
            at = end
    if not kept:
        return raw
    return "".join((*kept, source[at:])).encode()


def quoted(text: str) -> str:
    """Return a JSON string; half of a surrogate pair stays an escape."""
    if any("\ud800" <= each <= "\udfff" for each in text):
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def _string_values(source: str) -> Iterator[tuple[int, int, Path]]:
    """Yield where each string value begins and ends, and the members that it is below."""
    paths: list[tuple[bool, Path]] = []  # objects and arrays around it, with their paths
    is_object, name = False, ""
    path: Path = ()
    expects_name = False
    for match in _TOKEN.finditer(source):
        token = match[0]
        first = token[0]
        if first == '"':
            if expects_name:
                name = token[1:-1] if "\\" not in token else json.loads(token, strict=False)
                expects_name = False
            else:
                yield match.start(), match.end(), (*path, name) if is_object else path
        elif first in "{[":
            paths.append((is_object, path))
            path = (*path, name) if is_object else path
            is_object = expects_name = first == "{"
        elif first in "}]":
            if paths:
                is_object, path = paths.pop()
            expects_name = False
        elif first == ",":
            expects_name = is_object


def clean_value(value: Any, level: Level, removed: Removed) -> Any:
    """Return a JSON string, as bytes, whose text is clean; anything else as it is."""
    if not isinstance(value, bytes) or is_clean(value, level):
        return value
    text = envelope.text(value)
    if text is None:
        return value
    found = clean_text(text, level, removed)
    return value if found == text else quoted(found).encode()
