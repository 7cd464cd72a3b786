"""Looks for what attacks on models are made of, in the definitions of servers.

A finding blocks nothing. **Hard** ones have no honest use in a definition; **soft** ones are words
that attacks use, and that are used otherwise, too. A phrase in a sentence that quotes or describes
it is *noted*: told, and not counted. Everything is deterministic and takes linear time.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, Literal

import msgspec

from mcpd.core.catalog.canonical import strings
from mcpd.core.catalog.confusables import folded, is_mixed
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
_TOKENS: Final = 64  # of one text that are decoded
_DECODED: Final = 4096  # characters of one that are
_NESTED: Final = 2  # times that what was decoded is decoded again
_EACH: Final = 8  # findings of one class and text
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


_SENTENCE_END: Final = re.compile(r"[.!?;]\s|\n")
_DESCRIBED: Final = re.compile(
    r"(?<![./@-])\b(?:detect|scan|flag|reject|inject|malicious|example|e\.g|such as|phrases?|"
    r"patterns?|sanitiz|sanitis|known as|looks? for)",
    re.IGNORECASE,
)
_WITHOUT: Final = re.compile(r"without\b", re.IGNORECASE)
_NOT: Final = re.compile(r"\b(?:not|never|cannot|nothing)\b|n't\b", re.IGNORECASE)
_QUOTES: Final = "\"'`“”‘’«»"  # noqa: RUF001
_SECRET_PLACES: Final = (
    r"(?:~|\$HOME|/home/[^/\s]{1,64}|/root|/Users/[^/\s]{1,64})?/\.(?:ssh|aws|gnupg|kube|docker|netrc|"
    r"git-credentials|npmrc|pypirc|cursor|claude|codeium|config/(?:gcloud|gh|op))\b"
    r"|\bid_(?:rsa|ed25519|ecdsa)\b(?!\.pub)|/etc/(?:shadow|passwd|sudoers)\b"
    r"|\b(?:mcp|claude_desktop_config)\.json\b|\bLogin Data\b|\bkeychain-db\b|\bwallet\.dat\b"
)
_SECRETS: Final = re.compile(rf"{_SECRET_PLACES}|\.env\b", re.IGNORECASE)
_OBJECTS: Final = re.compile(
    rf"{_SECRET_PLACES}|\.env\b"
    r"|\b(?:credentials?|passwords?|secrets?|private keys?|api[ _-]?keys?|tokens?"
    r"|environment variables?|conversation|chat history|previous messages|system prompt"
    r"|contents? of|whole file|entire)\b",
    re.IGNORECASE,
)
_USING: Final = re.compile(
    r"\b(?:before|prior to|after|whenever|when|in order to|to)\s+(?:\w+\s+)?"
    r"(?:use|using|call(?:ing)?|invok(?:e|ing)|run(?:ning)?|execute|executing|answer(?:ing)?"
    r"|respond(?:ing)?)\b[^.!?\n]*\b(?:read|send|open|cat|access|fetch|load|copy|upload|forward|post"
    r"|pass|include|collect|gather|append|print|provide)\b[^.!?\n]*$",
    re.IGNORECASE,
)
_FIRST: Final = re.compile(
    r"\b(?:first|always|must)\b[^.!?\n]{0,30}\b(?:read|cat|open|access)\b[^!?\n]*$", re.IGNORECASE
)
_READ: Final = re.compile(r"\b(?:read|cat|open|copy)\b[^!?\n]*$", re.IGNORECASE)
_THEN: Final = re.compile(
    r"^[^!?\n]*\b(?:pass|send|include|put|append|paste|upload|post|forward|argument|parameter)\b",
    re.IGNORECASE,
)
_WINDOW: Final = 120  # characters before and after the name of a secret
_CANDIDATES: Final = 64  # of one text
_PHRASES: Final = {
    "phrase.override": (
        r"\b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|the\s+|your\s+|my\s+|these\s+)*"
        r"(?:previous|prior|above|earlier|preceding|other|system|safety|original)\s+"
        r"(?:\w+\s+){0,2}"
        r"(?:instructions?|prompts?|rules?|guidelines?|directions?|messages?|context|tools?)\b"
        r"|\b(?:no longer|not) (?:bound|restricted|limited) by (?:\w+ ){0,3}"
        r"(?:instructions?|prompts?|rules?|guidelines?|polic(?:y|ies))\b"
        r"|\byou are now (?:in|a|an|the)\b|\bnew (?:system )?instructions?\s*:"
        r"|\b(?:developer|god|dan) mode\b"
        r"|\b(?:takes?|has|have) (?:precedence|priority) over (?:all|any|every|other|user|system)\b"
        r"|\binstead of (?:what|the one) the user\b"
    ),
    "phrase.conceal": (
        r"\b(?:do not|don'?t|never|must not|without|avoid|no need to)\s+(?:\w+\s+)?"
        r"(?:tell|telling|mention|mentioning|inform|informing|reveal|revealing|notify|notifying|disclose|disclosing|"
        r"alert|alerting|explain|explaining|say|show|showing|let|ask|asking)\b"
        r"[^.!?\n]{0,60}?\b(?:the user|users?|human|them|anyone|anybody|him|her)\b"
        r"|\b(?:do not|don'?t|never|must not|without|avoid) (?:\w+ )?(?:tell|mention|reveal|"
        r"disclose|say|explain|admit)(?:ing)? that (?:you|it|this|they)\b"
        r"|\b(?:hide|conceal|keep) (?:this|it|that|these)(?: \w+){0,3} (?:from|secret)\b"
        r"|\b(?:silently|secretly|covertly|quietly|discreetly)\s+(?:\w+\s+)?(?:send|sends|forward|"
        r"upload|post|copy|include|read|add|bcc|email|e-mail|exfiltrate|append|attach|transmit|log)\b"
    ),
    "phrase.preamble": (
        r"\b(?:(?:pass|send|include|put|append|paste|upload|post|forward|provide)\b[^.!?\n]{0,40}?"
        r"|with (?:the |your )?)"
        r"\b(?:entire|full|whole|complete|all)\b[^.!?\n]{0,20}?"
        r"\b(?:conversation|chat history|message history|previous messages|system prompt)\b"
    ),
    "path.secret": _SECRET_PLACES,
    "tag.instruction": (
        r"<\s{0,8}(?:important|system|secret|hidden|critical|override)\s{0,8}>|<\|[^|<>\n]{1,64}\|>|\[/?INST\]"
        r"|<!--(?:(?!<!--)[^>]){0,200}?\b(?:instruction|ignore|system|assistant|must|secret)"
    ),
    "secret.embedded": (
        r"\b(?:ghp|gho|ghs|ghr)_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{60,}\b|\bAKIA[0-9A-Z]{16}\b"
        r"|\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}\b|\bxox[abprs]-[A-Za-z0-9-]{20,}\b|\bAIza[0-9A-Za-z_-]{35}\b"
        r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
        r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{20}"
    ),
}
_COMPILED: Final = {
    name: re.compile(pattern, 0 if name == "secret.embedded" else re.IGNORECASE)
    for name, pattern in _PHRASES.items()
}
_NEEDS: Final = {
    "phrase.override": (
        "ignor", "disregard", "forget", "overrid", "bypass", "you are now", "new instruction",
        "new system", " mode", "precedence", "priority", "instead of",
        "bound by", "restricted by", "limited by",
    ),
    "phrase.conceal": (
        "do not ", "don't ", "dont ", "never ", "must not ", "without ", "avoid ", "no need to ",
        "hide ", "conceal ", "keep ", "silently", "secretly", "covertly", "quietly", "discreetly",
    ),
    "phrase.preamble": (
        "credential", "password", "secret", "private key", "api key", "api-key", "api_key",
        "apikey", "token", "environment variable", "conversation", "history",
        "previous messages", "system prompt", "contents of", "content of", "whole file", "entire",
        "/.", "id_", ".env", "/etc/", ".json", "login data", "keychain", "wallet",
    ),
    "path.secret": ("/.", "id_", "/etc/", ".json", "login data", "keychain-db", "wallet.dat"),
    "tag.instruction": ("<", "inst]"),
    "secret.embedded": (
        "ghp_", "gho_", "ghs_", "ghr_", "github_pat_", "akia", "sk-", "xox", "aiza", "-----begin",
        "eyj",
    ),
}  # fmt: skip
"""Without one of these, in small letters, a pattern cannot match; most texts have none."""
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
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}){12,}")
_BYTES: Final = re.compile(  # not what ends a word, but for 0x
    r"[0-9a-fA-F]{2}(?<![0-9A-WYZa-wyz_]..)[ ,:]{1,2}"
    r"(?:(?:0x)?[0-9a-fA-F]{2}[ ,:]{1,2}){6,}(?:0x)?[0-9a-fA-F]{2}\b"
)
_ESCAPES: Final = re.compile(r"(?:\\x[0-9a-fA-F]{2}){8,}")
_BYTE: Final = re.compile(r"(?:\\x|0x)?([0-9a-fA-F]{2})")
_COMMAND: Final = re.compile(
    r"(?:^|[\s;&|`$(])(?:curl|wget|nc|ncat|bash|sh|zsh|python3?|perl|ruby|node|powershell(?:\.exe)?|pwsh|iex|cmd(?:\.exe)?|"
    r"rm|chmod|eval|exec|cat|scp|ssh|base64|osascript|certutil|mshta|Invoke-\w+)\s+\S"
    r"|https?://[^\s|]{1,1000}+\s*+\|\s*\S|>\s*/dev/tcp/"
    r"|\b(?:import os|os\.system|subprocess\.|child_process)\b"
)
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
    small = whole.lower()
    for cls, pattern in _COMPILED.items():
        if not any(need in small for need in _NEEDS[cls]):
            continue
        spans = [match.span() for match in islice(pattern.finditer(whole), _EACH)]
        if cls == "phrase.preamble":
            spans += islice(_preambles(whole), _EACH)
        shown: set[tuple[str, Weight]] = set()
        shown_to = -1
        for begin, end in sorted(spans):
            weight: Weight = "noted" if _is_described(whole, begin, end) else "soft"
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


def _preambles(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text says to read or send what is secret, before or while a tool is used."""
    for match in islice(_OBJECTS.finditer(text), _CANDIDATES):
        begin, end = match.span()
        before, after = text[max(0, begin - _WINDOW) : begin], text[end : end + _WINDOW]
        found = _USING.search(before)
        if found is None and _SECRETS.fullmatch(match[0]) is not None:
            found = _FIRST.search(before)
            if found is None and _THEN.search(after) is not None:
                found = _READ.search(before)
        if found is not None:
            yield begin - len(before) + found.start(), end


def _is_described(text: str, begin: int, end: int) -> bool:
    """Tell whether what was found is quoted, or in a sentence about such phrases."""
    if text[begin - 1 : begin] in _QUOTES and text[end : end + 1] in _QUOTES and begin:
        return bool(text[end : end + 1])
    lowest = max(0, begin - 400)
    starts = [each.end() for each in _SENTENCE_END.finditer(text, lowest, begin)]
    sentence = text[starts[-1] if starts else lowest : begin]
    if _WITHOUT.match(text, begin) is not None and _NOT.search(sentence) is not None:
        return True  # not to send without showing is to show
    return _DESCRIBED.search(sentence) is not None


def payloads(text: str) -> list[tuple[int, str]]:
    """Return the commands that a text has in base64 or hexadecimal, and where."""
    found: list[tuple[int, str]] = []
    for match in islice(_BASE64.finditer(text), _TOKENS):
        _add_command(found, match.start(), _decoded(match[0]), _NESTED)
    escaped = _ESCAPES.finditer(text) if "\\x" in text else ()
    for match in islice(chain(escaped, _BYTES.finditer(text)), _TOKENS):
        digits = "".join(_BYTE.findall(match[0][: _DECODED * 6]))
        _add_command(found, match.start(), bytes.fromhex(digits), _NESTED)
    return found


def _decoded(token: str) -> bytes:
    """Return the bytes of base64 in either alphabet, or of hexadecimal; nothing for other text."""
    token = token.rstrip("=")[:_DECODED]
    if _HEX.fullmatch(token):
        return bytes.fromhex(token)
    token = token.replace("-", "+").replace("_", "/")
    token = token[: len(token) - (len(token) % 4 == 1)]
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, binascii.Error):
        return b""


def _add_command(found: list[tuple[int, str]], at: int, data: bytes, levels: int) -> None:
    for encoding in ("ascii", "utf-16-le"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not text.isascii() or not _is_printed(text):
            continue
        if _COMMAND.search(text):
            found.append((at, text))
            return
        if levels and _BASE64.fullmatch(text.strip()):
            _add_command(found, at, _decoded(text.strip()), levels - 1)
            return


def _is_printed(text: str) -> bool:
    return all(each.isprintable() or each in "\n\r\t" for each in text)


def visible(text: str) -> str:
    """Return a text with each character that cannot be seen as ``⟨U+200B⟩``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else f"⟨U+{ord(each):04X}⟩" for each in text
    )
