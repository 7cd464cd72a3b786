"""Phrases that attacks on models use, each a pattern of one class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

_EACH: Final = 8  # findings of one class and text
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


def phrases(text: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield each class that occurs in a text, and where: the first places, in order."""
    small = text.lower()
    for cls, pattern in _COMPILED.items():
        if not any(need in small for need in _NEEDS[cls]):
            continue
        spans = [match.span() for match in islice(pattern.finditer(text), _EACH)]
        if cls == "phrase.preamble":
            spans += islice(_preambles(text), _EACH)
        yield cls, sorted(spans)


def is_described(text: str, begin: int, end: int) -> bool:
    """Tell whether what was found is quoted, or in a sentence about such phrases."""
    if text[begin - 1 : begin] in _QUOTES and text[end : end + 1] in _QUOTES and begin:
        return bool(text[end : end + 1])
    lowest = max(0, begin - 400)
    starts = [each.end() for each in _SENTENCE_END.finditer(text, lowest, begin)]
    sentence = text[starts[-1] if starts else lowest : begin]
    if _WITHOUT.match(text, begin) is not None and _NOT.search(sentence) is not None:
        return True  # not to send without showing is to show
    return _DESCRIBED.search(sentence) is not None


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
