"""Names that look alike: scripts, and a small table of letters that are taken for Latin ones.

The table has the letters of Cyrillic, Greek, Armenian, Cherokee and of Latin beyond ASCII that
Unicode's confusables.txt (UTS 39) maps to one ASCII letter. NFKC does the full-width and the
mathematical letters, and case folding the capitals. ADR 0030 says why it is so small.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

_ALIKE: Final = {
    "-": "\u2010\u2011\u2013\u2014\u2212\u30fc",
    ".": "\u2024",
    "_": "\uff3f",
    "a": "\u0430\u03b1\u0251\u13aa",
    "b": "\u044c\u0432\u03b2\u0299\u13f4",
    "c": "\u0441\u03f2\u1d04\u13df",
    "d": "\u0501\u0111\u13a0",
    "e": "\u0435\u04bd\u0451\u03b5\u13ac",
    "f": "\u0192",
    "g": "\u0581\u0261\u13c0",
    "h": "\u04bb\u043d\u0570\u029c\u0127\u13bb",
    "i": "\u0456\u0457\u03b9\u0131\u0269\u026a\u13a5",
    "j": "\u0458\u03f3\u0575\u0237\u13ab",
    "k": "\u043a\u03ba\u13e6",
    "l": "\u04cf\u056c\u029f\u01421\u13de",
    "m": "\u043c\u13b7",
    "n": "\u03b7\u0578\u057c\u0274",
    "o": "\u043e\u03bf\u03c3\u0585\u1d0f\u00f80\u0660\u0966",
    "p": "\u0440\u03c1\u13e2",
    "q": "\u051b\u0566",
    "r": "\u0433\u0491\u13a1",
    "s": "\u0455\ua731\u13da",
    "t": "\u0442\u03c4\u13a2",
    "u": "\u0446\u03c5\u03bc\u057d",
    "v": "\u0475\u03bd\u1d20\u13d9",
    "w": "\u051d\u0461\u03c9\u0561\u1d21\u13b3",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af\u03b3\u028f",
    "z": "\u03b6\u1d22\u13c3",
}
_TABLE: Final = {ord(each): letter for letter, alike in _ALIKE.items() for each in alike}
_BLANK: Final = frozenset("\u115f\u1160\u2800")  # letters, and a symbol, that nobody sees
_CASELESS: Final = frozenset(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"))
_WORD: Final = re.compile(r"[^\W\d_]+")


LONGEST: Final = 256
"""Characters of a text that are looked at; names have fewer."""


def folded(text: str) -> str:
    """Return what a text looks like: equal for two texts that one could take for another.

    It is NFKC, case folded, without accents and characters that are not seen, with look-alikes as
    the ASCII letter that they look like. Patterns keep their ``*``, ``?`` and brackets.
    """
    return _folded(text[:LONGEST])


@lru_cache(maxsize=8192)
def _folded(text: str) -> str:
    if text.isascii():
        return text.lower().translate(_TABLE)
    seen = unicodedata.normalize("NFKC", text).casefold()
    seen = unicodedata.normalize("NFKD", seen)
    kept = "".join(
        each
        for each in seen
        if unicodedata.category(each) not in ("Mn", "Cf", "Cc") and each not in _BLANK
    )
    return kept.translate(_TABLE)


def is_mixed(name: str) -> bool:
    """Tell whether one word of a name has letters of several scripts.

    Han, Kana, Hangul and Latin are written together; words of different scripts are no mixture.
    """
    if name.isascii():
        return False
    return any(len(_scripts(word)) > 1 for word in _WORD.findall(name))


def _scripts(word: str) -> set[str]:
    found = {_script(letter) for letter in word if not letter.isascii()}
    found -= _CASELESS | {""}
    if any(letter.isascii() for letter in word):
        found.add("LATIN")
    return found


def _script(letter: str) -> str:
    """Return the first word of a letter's name, which is its script; nothing for a modifier."""
    name = unicodedata.name(letter, "")
    first = name.partition(" ")[0]
    if first in ("FULLWIDTH", "HALFWIDTH"):
        return name.split(" ")[1]
    return "" if first in ("MODIFIER", "FEMININE", "MASCULINE", "MICRO") else first
