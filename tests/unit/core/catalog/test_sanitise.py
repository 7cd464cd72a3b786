"""What is removed from texts, and what comes through."""

from __future__ import annotations

import json
import time

import pytest

from mcpd.core.catalog.results import STEP_BYTES, clean_at_once, cleaning
from mcpd.core.catalog.sanitise import (
    STRICT_MOST,
    TEXT_MOST,
    Level,
    Removed,
    clean_json,
    clean_text,
    is_clean,
)
from tests.unit.core.catalog.corpus import benign

TAGS = "".join(chr(0xE0000 + ord(c)) for c in "hidden")
GONE = {
    "tags": (f"Adds.{TAGS}", "Adds.", "unicode.tag"),
    "a flag that is none": ("\U0001f3f4" + TAGS * 3, "\U0001f3f4", "unicode.tag"),
    "bidi": ("a\u202eb\u2066c\u2069", "abc", "unicode.bidi"),
    "colours": ("Red \x1b[31mtext\x1b[0m.", "Red text.", "ansi"),
    "a title": ("a\x1b]0;owned\x07b", "ab", "ansi"),
    "a clipboard": ("a\x1b]52;c;eA==\x1b\\b", "ab", "ansi"),
    "half a sequence": ("a\x1b]0;ownedb", "a0;ownedb", "ansi"),
    "a CSI of C1": ("a\x9b31mb", "ab", "ansi"),
    "an OSC of C1": ("a\x9d0;owned\x9cb", "ab", "ansi"),
    "a DCS of C1": ("a\x90q\x07b", "ab", "ansi"),
    "zero width": ("pass\u200bword\ufeff", "password", "unicode.invisible"),
    "a soft hyphen": ("pass\u00adword", "password", "unicode.invisible"),
    "joiners in ASCII": ("pass\u200d\u200cword", "password", "unicode.joiner"),
    "a selector after a letter": ("a\ufe0fb", "ab", "unicode.selector"),
    "selectors that repeat": ("\u2764\ufe0f\ufe0e\ufe0f", "\u2764\ufe0f", "unicode.selector"),
    "controls": ("a\x00b\x08c\x7fd\re", "abcde", "control"),
    "a joiner beside what goes": ("a\u200d\u200bb", "ab", "unicode.joiner"),
}


@pytest.mark.parametrize("what", benign.SCRIPTS)
def test_what_people_write_comes_through(what: str) -> None:
    """
    Byte for byte: agents compare texts.
    """
    removed = Removed()
    assert clean_text(benign.SCRIPTS[what], "invisible", removed) == benign.SCRIPTS[what]
    assert not removed


@pytest.mark.parametrize("what", GONE)
def test_what_nobody_can_see_is_removed(what: str) -> None:
    """
    And it is told what that was.
    """
    evil, good, cls = GONE[what]
    removed = Removed()
    assert clean_text(evil, "invisible", removed) == good
    assert removed.counts[cls] > 0
    assert clean_text(evil, "off") == evil


def test_hidden_text_is_decoded() -> None:
    """
    A person wants to know what a model was told.
    """
    removed = Removed()
    clean_text(f"Adds.{TAGS}", "invisible", removed)
    assert removed.hidden == ["hidden"]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("<IMPORTANT>x</IMPORTANT>", "\u2039IMPORTANT\u203ax\u2039/IMPORTANT\u203a"),
        ("a <!-- b --> c", "a  c"),
        ("<|im_start|> [INST]", "\u2039|im_start|\u203a \u2039INST\u203a"),
        ("![x](https://evil.example/p.png?q=1)", "x"),
        ("[x](javascript:alert)", "x"),
        ("[x](https://example.com) <path> List<T>", "[x](https://example.com) <path> List<T>"),
        ("<!-<!-- -->- x -->", ""),
    ],
)
def test_strict_marks_instructions_as_text(text: str, good: str) -> None:
    """
    Their words stay: they may be what the tool is about.
    """
    assert clean_text(text, "strict") == good


@pytest.mark.parametrize(("level", "most"), [("invisible", TEXT_MOST), ("strict", STRICT_MOST)])
@pytest.mark.parametrize("length", [0, 1, 10, 1_000_000])
def test_long_texts_are_cut(level: Level, most: int, length: int) -> None:
    """
    The note says how much, and is not cut itself.
    """
    text = "x" * (most + length)
    found = clean_text(text, level)
    assert len(found) <= most
    assert clean_text(found, level) == found
    kept, _, note = found.partition("… [mcpd: ")
    if length:
        assert int(note.split()[0]) + len(kept) == len(text)


@pytest.mark.parametrize(
    "piece", ["\x9d", "\x90\x9f", "\x1b]", "\x9b0", "\x9b", "![](//" + "x" * 2200]
)
@pytest.mark.parametrize("level", ["invisible", "strict"])
def test_what_begins_and_never_ends_takes_linear_time(level: Level, piece: str) -> None:
    """
    The interpreter is held meanwhile, in a thread as on the loop. It took minutes.
    """
    text = piece * (120_000 // len(piece))
    begun = time.monotonic()
    found = clean_text(text, level)
    assert time.monotonic() - begun < 10
    assert not any(each in found for each in "\x1b\x90\x9b\x9d\x9f")


def test_a_sequence_in_an_unended_one_is_removed() -> None:
    """
    What is between their beginnings is text.
    """
    removed = Removed()
    assert clean_text("a\x1b]0;b\x9d52;c;x\x07d", "invisible", removed) == "a0;bd"
    assert removed.counts["ansi"] == 2


def test_json_keeps_every_other_byte() -> None:
    """
    Names, numbers and spaces are as they came; a text is written anew if it has changed.
    """
    raw = (
        '{ "name":"a\\u200b", "n":1.0,"description" : "x\\u200by","inputSchema":{"properties":'
        '{"p\\u200b":{"description":"\\u202eq","enum":["\\u200bz", "\\ud800"]}},'
        '"required":["p\\u200b"]}}'
    )
    wanted = raw.replace("x\\u200by", "xy").replace("\\u202eq", "q").replace('"\\u200bz"', '"z"')
    assert clean_json(raw.encode(), "invisible", Removed()).decode() == wanted


def test_clean_json_is_not_parsed() -> None:
    """
    It costs a look at its bytes.
    """
    raw = b'{"name":"x","description":"Adds \\"two\\" numbers.\\n"}'
    assert is_clean(raw)
    assert clean_json(raw, "invisible", Removed()) is raw


RESULT = {
    "content": [
        {"type": "text", "text": "a\u200bb\u202ec"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x://\u200b", "text": "d\u200b"}},
    ],
    "structuredContent": {"m\u200bn": ["e\u200b", {"f": "g\u200b", "h": 1}]},
    "_meta": {"i": "j\u200b"},
}


@pytest.mark.parametrize("is_ascii", [True, False])
def test_results_are_cleaned_where_a_model_reads_them(is_ascii: bool) -> None:
    """
    Images, addresses and names are not texts.
    """
    raw = json.dumps(RESULT, ensure_ascii=is_ascii).encode()
    found = json.loads(clean_at_once(raw, "invisible", Removed()))
    assert [each.get("text") for each in found["content"]] == ["abc", None, None]
    assert found["content"][2]["resource"] == {"uri": "x://\u200b", "text": "d"}
    assert found["structuredContent"] == {"m\u200bn": ["e", {"f": "g", "h": 1}]}
    assert found["_meta"] == RESULT["_meta"]


@pytest.mark.parametrize("word", ["ab \u200bcd ", "\\u200b", 'q"\\\\ ', "\u65e5\u200b\u672c"])
def test_long_results_are_cleaned_in_steps(word: str) -> None:
    """
    A thread that does it lets others run in between; escapes are never cut apart.
    """
    text = (word + "x" * 50) * 4_000
    raw = json.dumps({"content": [{"type": "text", "text": text}]}, ensure_ascii=False).encode()
    removed = Removed()
    steps, count = cleaning(raw, "invisible", removed), 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            found = json.loads(end.value)
            break
    assert found["content"][0]["text"] == text.replace("\u200b", "")
    assert count >= 5 or not removed


@pytest.mark.parametrize(
    ("piece", "clean"),
    [
        ("\u65e5\u672c\u8a9e", "\u65e5\u672c\u8a9e"),
        ("\uae00\u200b\uc790", "\uae00\uc790"),
        ("\x9d", ""),
        ("\U000e0061", ""),
        ("---", "---"),
        ("\u0435", "\u0435"),
        ("\U0001f44d\U0001f3fd", "\U0001f44d\U0001f3fd"),
    ],
)
@pytest.mark.parametrize("end", ["", " a b"])
def test_a_result_without_spaces_is_cleaned_in_steps(piece: str, clean: str, end: str) -> None:
    """
    Each of them holds the interpreter: a text of some megabytes in one is a second.
    """
    count = 400_000 // len(piece.encode())
    text = piece * count + "\u200b" + end
    raw = json.dumps({"content": [{"type": "text", "text": text}]}, ensure_ascii=False).encode()
    steps, number = cleaning(raw, "invisible", Removed()), 0
    while True:
        try:
            next(steps)
            number += 1
        except StopIteration as done:
            found = json.loads(done.value)
            break
    assert found["content"][0]["text"] == clean * count + end
    assert number >= 400_000 // STEP_BYTES // 3


@pytest.mark.parametrize(
    "raw", [b"", b'{"content":[{"text":"\\u200b', b"[" * 20_000 + b'"\\u200b"', b'"\xff\\u200b"']
)
def test_what_is_no_result_comes_through(raw: bytes) -> None:
    """
    It is the server's, and nothing raises for it.
    """
    assert clean_at_once(raw, "invisible", Removed()) == raw
