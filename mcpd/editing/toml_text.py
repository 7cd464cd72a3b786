"""Keys and values as TOML."""

from __future__ import annotations

import datetime
import json
import math
import re
from typing import Any

from mcpd.errors import ConfigError
from mcpd.formats.document import KeyPath

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Source(str):
    """The text of a value, which is written as it is."""

    __slots__ = ()


def key_text(path: KeyPath) -> str:
    """Return the text of a dotted key; numbers of list items are left out."""
    names = [part for part in path if isinstance(part, str)]
    return ".".join(name if _BARE.fullmatch(name) else value_text(name) for name in names)


def value_text(value: Any) -> str:
    """Return the text of a value in one line.

    Raises:
        ConfigError: TOML has no such value.
    """
    match value:
        case Source():
            return str(value)
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case float() if not math.isfinite(value):
            return str(value)
        case int() | float():
            return repr(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(value_text, value))}]"
        case dict():
            pairs = [f"{key_text((name,))} = {value_text(each)}" for name, each in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    raise ConfigError(f"TOML has no value for {json.dumps(value)}")


def _string(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError("TOML has no half of a surrogate pair") from None
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
