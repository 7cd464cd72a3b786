"""What crosses the pipes between the daemon and the validator's worker, and the limits of a check.

A request is its header, the schema and the arguments; an answer is its header and a JSON body. One
request is under way at a time, so neither has an id. The worker imports this, so it stays small.
"""

from __future__ import annotations

import struct
from typing import Final

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 32
"""Objects and arrays within each other; a nested object of arguments takes two."""

WORK_S: Final = 0.1
"""Processor time of one check, compiling its schema included; then the kernel ends the worker."""

MAX_VIOLATIONS: Final = 5

REQUEST: Final = struct.Struct("!II")
"""Lengths of the schema and of the arguments."""

ANSWER: Final = struct.Struct("!cI")
"""Which kind of answer, and the length of its body."""

READY: Final = b"R"
"""The worker has started; empty."""
FIRST: Final = b"F"
"""The first violation, before the search for more of them, which may take too long."""
FINAL: Final = b"A"
"""``{"violations": [[path, message], …]}`` or ``{"unchecked": reason}``."""
