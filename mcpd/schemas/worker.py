"""The validator's worker: a process that checks arguments against schemas, and may be killed.

A schema comes from a server and may be malicious. Its effects are limited to this process, whose
processor time and memory the kernel limits. Nothing is fetched for a schema, and regular
expressions run on an engine without backtracking.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import signal
from collections import OrderedDict
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpd.schemas.protocol import (
    ANSWER,
    FINAL,
    FIRST,
    MAX_SCHEMA_DEPTH,
    MAX_VIOLATIONS,
    READY,
    REQUEST,
    WORK_S,
)
from mcpd.schemas.wording import cut, describe, describe_all, wants_no_object

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_MEMORY_BYTES: Final = 1024**3
_MAX_REASON: Final = 4096  # the daemon masks secrets in it and cuts it again
_CACHED_SCHEMAS: Final = 256
_CACHED_BYTES: Final = 4 * 1024 * 1024
_PATTERN_BYTES: Final = 1024 * 1024  # of one compiled pattern
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class CannotCheck(Exception):
    """The schema or the arguments cannot be checked; the message says why."""


class Schemas:
    """A cache of compiled schemas; the least recently used ones are dropped first."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[bytes, tuple[Validator | CannotCheck, int]] = OrderedDict()
        self._size = 0

    def get(self, schema: bytes) -> Validator:
        """Return the compiled schema, from the cache if possible.

        Raises:
            CannotCheck: it is no schema, or one that cannot be checked safely.
        """
        key = sha256(schema).digest()
        if key in self._compiled:
            self._compiled.move_to_end(key)
        else:
            self._keep(key, _try_compile(schema), len(schema))
        found = self._compiled[key][0]
        if isinstance(found, CannotCheck):
            raise found
        return found

    def _keep(self, key: bytes, found: Validator | CannotCheck, size: int) -> None:
        self._compiled[key] = (found, size)
        self._size += size
        while len(self._compiled) > _CACHED_SCHEMAS or self._size > _CACHED_BYTES:
            _, (_, freed) = self._compiled.popitem(last=False)
            self._size -= freed


def _try_compile(schema: bytes) -> Validator | CannotCheck:
    import jsonschema_rs

    refused: list[str] = []

    def refuse(uri: str) -> NoReturn:
        refused.append(uri)
        raise LookupError(uri)

    try:
        value = _read(schema)
        if not isinstance(value, dict | bool):  # the library would parse a string once more
            return CannotCheck("its schema is neither an object nor true or false")
        if _depth(value) > MAX_SCHEMA_DEPTH:
            return CannotCheck(f"its schema is nested more than {MAX_SCHEMA_DEPTH} deep")
        return jsonschema_rs.validator_for(
            value,
            validate_formats=False,
            retriever=refuse,
            pattern_options=jsonschema_rs.RegexOptions(
                size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
            ),
        )
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        if refused:
            uri = cut(refused[0], _MAX_REASON)
            return CannotCheck(f"its schema refers to {uri}, and nothing is fetched for a schema")
        message = getattr(error, "message", str(error))  # the library's is shorter than its str()
        return CannotCheck(f"its schema cannot be used: {cut(message, _MAX_REASON)}")


def _depth(value: object) -> int:
    """Return the depth of nested objects and arrays, at most one above the limit."""
    level: list[Any] = [value]
    for depth in range(MAX_SCHEMA_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not any(isinstance(child, dict | list) for child in level):
            return depth + 1
    return MAX_SCHEMA_DEPTH + 1


def _read(data: bytes) -> Any:
    """Decode JSON; numbers that other decoders read differently are errors.

    Raises:
        ValueError, RecursionError: it is not valid.
    """
    return json.loads(data, parse_constant=_refuse_constant, parse_float=_finite)


def _read_arguments(data: bytes) -> Any:
    try:
        value = _read(data)
        if _SURROGATE.search(data):
            json.dumps(value, ensure_ascii=False).encode()  # the library would alter half a pair
    except (ValueError, RecursionError) as error:
        raise CannotCheck(f"the arguments cannot be read: {cut(str(error), _MAX_REASON)}") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{cut(text, 40)} is too large")
    return number


def check(schemas: Schemas, schema: bytes, arguments: bytes) -> None:
    """Run one check and write its answer."""
    import jsonschema_rs

    try:
        validator = schemas.get(schema)
        value = _read_arguments(arguments)
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            if wants_no_object(error):
                raise CannotCheck("its schema is one of something else than an object") from None
            first = describe(error)
        else:
            return _answer(FINAL, {"violations": []})
        # The search for all violations may take too long; then the first one is the answer.
        _answer(FIRST, {"violations": [first]})
        errors = list(islice(validator.iter_errors(value), MAX_VIOLATIONS))
        found = describe_all(errors, _read(schema))
        _answer(FINAL, {"violations": found or [first]})
    except CannotCheck as reason:
        _answer(FINAL, {"unchecked": str(reason)})
    except (ValueError, MemoryError) as error:
        _answer(FINAL, {"unchecked": f"the validator failed: {cut(str(error), _MAX_REASON)}"})


def _answer(kind: bytes, body: object) -> None:
    data = b"" if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
    frame = memoryview(ANSWER.pack(kind, len(data)) + data)
    while frame:
        frame = frame[os.write(1, frame) :]


def _take(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, min(size - len(data), 1024 * 1024))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _confine() -> None:
    """Set the limits above which the kernel kills this process, without a core file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon handles it
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for limit, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, _MEMORY_BYTES)):
        with suppress(ValueError, OSError):  # macOS has no limit of the address space
            resource.setrlimit(limit, (value, value))


def main() -> None:
    """Answer requests until the daemon closes the pipe."""
    _confine()
    import jsonschema_rs  # noqa: F401 - slow to import, so before the first request

    schemas = Schemas()
    _answer(READY, None)
    with suppress(EOFError, BrokenPipeError):
        while True:
            schema_size, arguments_size = REQUEST.unpack(_take(REQUEST.size))
            schema, arguments = _take(schema_size), _take(arguments_size)
            signal.setitimer(signal.ITIMER_PROF, WORK_S)
            check(schemas, schema, arguments)
            signal.setitimer(signal.ITIMER_PROF, 0)
