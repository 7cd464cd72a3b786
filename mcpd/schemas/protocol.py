"""The format on the pipes between the daemon and the validator's worker, and the limits of a check.

A request is a header, the schema and the arguments; an answer is a header and a JSON body. There is
one request at a time, so neither has an id. The worker imports this module, so it must stay small.
"""

from __future__ import annotations

import struct
from typing import Final

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 32
"""Nested objects and arrays; each nested object of the arguments takes two levels."""

WORK_S: Final = 0.1
"""CPU seconds of one check, including compiling its schema; then the kernel kills the worker."""

MAX_VIOLATIONS: Final = 5

REQUEST: Final = struct.Struct("!II")
"""Lengths of the schema and of the arguments."""

ANSWER: Final = struct.Struct("!cI")
"""The kind of an answer, and the length of its body."""

READY: Final = b"R"
"""The worker has started; empty."""
FIRST: Final = b"F"
"""The first violation, sent before the search for more, which may take too long."""
FINAL: Final = b"A"
"""``{"violations": [[path, message], …]}`` or ``{"unchecked": reason}``."""
