"""A text in every form in which a program may write it."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Iterator
from urllib.parse import quote, quote_plus


def in_json(text: str, *, ascii_only: bool, slash: str = "/", upper: bool = False) -> str:
    written = json.dumps(text, ensure_ascii=ascii_only).replace("/", slash)
    if upper:
        written = re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), written)
    return written


def forms(secret: str) -> Iterator[str]:
    """Yield a text as programs write it: in JSON, in URLs, in base64, for a shell."""
    yield secret
    for ascii_only in (True, False):
        for slash in ("/", "\\/"):
            for upper in (False, True):
                once = in_json(secret, ascii_only=ascii_only, slash=slash, upper=upper)
                yield once
                yield in_json(once, ascii_only=ascii_only, slash=slash, upper=upper)
                yield in_json(json.dumps({"x": once}), ascii_only=True)
    for safe in ("/", "", "+/=", "!*'()~"):
        for encode in (quote, quote_plus):
            yield encode(secret, safe=safe, errors="surrogateescape")
            yield re.sub(
                "%..",
                lambda found: found[0].lower(),
                encode(secret, safe=safe, errors="surrogateescape"),
            )
            yield quote(encode(secret, safe=safe, errors="surrogateescape"))
    yield quote(json.dumps(secret))
    for before in ("", "u:", "user:"):
        for after in ("", "!", "!!"):
            data = f"{before}{secret}{after}".encode(errors="surrogateescape")
            for encode_64 in (base64.b64encode, base64.urlsafe_b64encode):
                encoded = encode_64(data).decode()
                yield encoded
                yield encoded.rstrip("=")
                yield quote(encoded, safe="")
                yield json.dumps(encoded).replace("/", "\\/")
    yield base64.b64encode(json.dumps({"key": secret}).encode()).decode()
    yield repr(secret)
    yield repr(secret.encode(errors="surrogateescape"))
    yield repr({"x": [secret]})
    yield shlex.quote(secret)
    yield shlex.join(["sh", "-c", secret])
    yield html.escape(secret)
