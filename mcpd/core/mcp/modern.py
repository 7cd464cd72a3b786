"""The stateless era, as functions from message to message (revision 2026-07-28).

The only module that knows what a request says of itself in ``_meta``, and what a result does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from mcpd.core.mcp import codes, legacy, questions
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import TASKS_EXTENSION, HandshakeRefused, Introduction
from mcpd.core.mcp.methods import LEVELS
from mcpd.core.mcp.versions import MODERN, Era
from mcpd.core.wire import splice
from mcpd.core.wire.envelope import object_from, object_of, quote, text

ERA: Final = Era.MODERN
VERSION: Final = MODERN[-1]

META: Final = "io.modelcontextprotocol/"
VERSION_KEY: Final = META + "protocolVersion"
CAPABILITIES_KEY: Final = META + "clientCapabilities"
INFO_KEY: Final = META + "clientInfo"
LEVEL_KEY: Final = META + "logLevel"
SERVER_INFO_KEY: Final = META + "serverInfo"
SUBSCRIPTION_KEY: Final = META + "subscriptionId"
DRAINING_KEY: Final = "mcpd/draining"

TASKS: Final = TASKS_EXTENSION

ENVELOPE_KEYS: Final = frozenset((VERSION_KEY, CAPABILITIES_KEY, INFO_KEY, LEVEL_KEY))
"""What a request says of itself in ``_meta`` (2026-07-28, basic/index)."""

ANSWER_KEYS: Final = ("inputResponses", "requestState")
"""What a request made again brings with it (2026-07-28, basic/patterns/mrtr)."""

_RESULT_KEYS: Final = ("resultType", "ttlMs", "cacheScope")
_INFO_QUOTED: Final = b'"%b":' % SERVER_INFO_KEY.encode()
_SUBSCRIPTION_QUOTED: Final = b'"%b":' % SUBSCRIPTION_KEY.encode()
_ABSENT: Final = Raw(b"null")


class EnvelopeRefused(Exception):
    """A request whose ``_meta`` breaks a rule: the client's fault, and its error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


# -- what a request says of itself -----------------------------------------------------------------


def read_envelope(meta: Raw | bytes) -> ClientInfo | None:
    """Read who asks from the ``_meta`` of a request; ``None`` where it is no modern one.

    Raises:
        EnvelopeRefused: it names a version that is none of ours (-32022), or is incomplete or
            malformed (-32602): the client's fault.
    """
    members = object_of(meta)
    if members is None or VERSION_KEY not in members:
        return None
    version = text(members[VERSION_KEY])
    if version is None:
        raise EnvelopeRefused(codes.INVALID_PARAMS, f"{VERSION_KEY} must be a string")
    if version not in MODERN:
        why = f"protocol version {version!r} is not supported"
        data = {"supported": list(MODERN), "requested": version}
        raise EnvelopeRefused(codes.UNSUPPORTED_VERSION, why, data)
    capabilities = members.get(CAPABILITIES_KEY)
    if capabilities is None:
        raise EnvelopeRefused(codes.INVALID_PARAMS, f"{CAPABILITIES_KEY} is missing from _meta")
    declared = object_of(capabilities)
    if declared is None:
        raise EnvelopeRefused(codes.INVALID_PARAMS, f"{CAPABILITIES_KEY} must be an object")
    info = bytes(members.get(INFO_KEY, b""))
    level = members.get(LEVEL_KEY, _ABSENT)
    name = text(level)
    if name not in LEVELS and bytes(level) != b"null":
        why = f"{LEVEL_KEY} must be one of {', '.join(LEVELS)}"
        raise EnvelopeRefused(codes.INVALID_PARAMS, why)
    return ClientInfo(
        era=Era.MODERN,
        capabilities=bytes(capabilities),
        info=info if info and object_of(info) is not None else None,
        answers=questions.answers_of(declared),
        level=name,
    )


def with_envelope(
    params: Raw | bytes | None, client_info: ClientInfo, version: str = VERSION
) -> bytes:
    """Return the parameters with what each request says of itself; the rest as it came."""
    said = _envelope(client_info, version)
    if params is None:
        return b'{"_meta":{%b}}' % said
    return _with_meta(params, said, ENVELOPE_KEYS)


def _envelope(client_info: ClientInfo, version: str) -> bytes:
    parts = [
        b'"%b":"%b","%b":%b' % (_VERSION, version.encode(), _CAPABILITIES, client_info.capabilities)
    ]
    if client_info.info is not None:
        parts.append(b'"%b":%b' % (_INFO, client_info.info))
    if client_info.level is not None:
        parts.append(b'"%b":"%b"' % (_LEVEL, client_info.level.encode()))
    return b",".join(parts)


_VERSION, _CAPABILITIES, _INFO, _LEVEL = (
    key.encode() for key in (VERSION_KEY, CAPABILITIES_KEY, INFO_KEY, LEVEL_KEY)
)


def without_envelope(params: Raw | bytes | None) -> bytes | None:
    """Return the parameters without what the request says of itself.

    A ``_meta`` that is empty then goes as well, and so do parameters.
    """
    return _without_meta(params, ENVELOPE_KEYS)[0]


def discover_params(client_info: ClientInfo) -> bytes:
    """Return the parameters of ``server/discover``."""
    return with_envelope(None, client_info)


# -- what a server says of itself ------------------------------------------------------------------


def read_discover(result: Raw | bytes, server: str) -> Introduction:
    """Read a server's answer to ``server/discover``.

    Raises:
        HandshakeRefused: the server's fault: no object, or no revision that we share.
    """
    members = object_of(result)
    if members is None:
        raise HandshakeRefused("answered server/discover with something else than an object")
    versions = _texts(members.get("supportedVersions", _ABSENT))
    if versions is None:
        raise HandshakeRefused("names no supportedVersions in its answer to server/discover")
    shared = [version for version in MODERN if version in versions]
    if not shared:
        said = ", ".join(versions) or "none"
        raise HandshakeRefused(f"speaks protocol versions that mcpd does not know: {said}")
    capabilities = object_of(members.get("capabilities", _ABSENT))
    if capabilities is None:
        raise HandshakeRefused("names no capabilities in its answer to server/discover")
    meta = object_of(members.get("_meta", _ABSENT)) or {}
    info = bytes(meta.get(SERVER_INFO_KEY, b""))
    if object_of(info or b"null") is None:
        info = msgspec.json.encode({"name": server, "version": "0"})  # a legacy client wants both
    instructions = members.get("instructions")
    if instructions is not None and text(instructions) is None:
        instructions = None
    return Introduction(
        version=shared[-1],
        capabilities={name: Raw(bytes(raw)) for name, raw in capabilities.items()},
        info=info,
        instructions=None if instructions is None else bytes(instructions),
    )


def discover_result(capabilities: bytes, info: bytes, instructions: bytes | None) -> bytes:
    """Write the result of a client's ``server/discover``."""
    said = b"" if instructions is None else b',"instructions":%b' % instructions
    return (
        b'{"resultType":"complete","supportedVersions":%b,"capabilities":%b%b,'
        b'"ttlMs":0,"cacheScope":"private","_meta":{"%b":%b}}'
    ) % (msgspec.json.encode(MODERN), capabilities, said, SERVER_INFO_KEY.encode(), info)


def capabilities_shown(introduction: Introduction) -> bytes:
    """Return a server's capabilities as its own endpoint shows them to modern clients."""
    return legacy.capabilities_shown(introduction, has_tasks=introduction.era is Era.MODERN)


def has_tasks(introduction: Introduction) -> bool:
    """Tell whether a server has the tasks of the extension."""
    extensions = introduction.capabilities.get("extensions", _ABSENT)
    return introduction.era is Era.MODERN and TASKS in (object_of(extensions) or {})


def without_tasks(client_info: ClientInfo) -> ClientInfo:
    """Return who asks where a task could not be found again: through the aggregate."""
    if TASKS.encode() not in client_info.capabilities:
        return client_info
    members = object_of(client_info.capabilities) or {}
    extensions = object_of(members.get("extensions", Raw(b"{}"))) or {}
    extensions.pop(TASKS, None)
    if extensions:
        members["extensions"] = Raw(object_from(extensions))
    else:
        members.pop("extensions", None)
    return msgspec.structs.replace(client_info, capabilities=object_from(members))


# -- results ---------------------------------------------------------------------------------------


def result_type(result: Raw | bytes) -> str | None:
    """Return what a result is; without the member it is complete.

    ``None`` where the member is no string, and where the result is no object.
    """
    members = object_of(result)
    if members is None:
        return None
    return text(members["resultType"]) if "resultType" in members else "complete"


def stamped(result: Raw | bytes, info: bytes, *, hints: tuple[int, str] | None = None) -> bytes:
    """Return a legacy result as a complete modern one, its own members untouched.

    ``hints`` are ``ttlMs`` and ``cacheScope`` for those results that carry them.
    """
    members = object_of(result)
    if members is None:
        return bytes(result)
    said = b'"resultType":"complete"'
    if hints is not None:
        if "ttlMs" not in members:
            said += b',"ttlMs":%d' % hints[0]
        if "cacheScope" not in members:
            said += b',"cacheScope":"%b"' % hints[1].encode()
    about = _INFO_QUOTED + info
    if "_meta" not in members and "resultType" not in members:
        return splice.in_front(result, b'%b,"_meta":{%b}' % (said, about))
    raw = splice.without(result, ("resultType",))
    return splice.in_front(_with_meta(raw, about, (SERVER_INFO_KEY,)), said)


def stripped(result: Raw | bytes) -> bytes:
    """Return a complete modern result as a legacy one, its other members untouched."""
    return splice.without(result, _RESULT_KEYS)


def list_page(page: bytes, info: bytes, ttl_ms: int, scope: str) -> bytes:
    """Return a whole list result of ours for a modern client."""
    return stamped(page, info, hints=(ttl_ms, scope))


# -- input that a result asks for ------------------------------------------------------------------


class Input(msgspec.Struct, frozen=True):
    """What a server wants to know before it goes on (2026-07-28, basic/patterns/mrtr).

    ``requests`` has method and parameters by key; ``state`` is JSON as it came.
    """

    requests: dict[str, tuple[str, bytes | None]]
    state: bytes | None = None


def read_input(result: Raw | bytes) -> Input:
    """Read an ``input_required`` result.

    Raises:
        ValueError: the server's fault; the text says what is wrong.
    """
    members = object_of(result)
    if members is None:
        raise ValueError("the result is not an object")
    state = bytes(members.get("requestState", _ABSENT))
    if state != b"null" and text(state) is None:
        raise ValueError("requestState must be a string")
    asked = members.get("inputRequests", _ABSENT)
    requests: dict[str, tuple[str, bytes | None]] = {}
    if bytes(asked) != b"null":
        entries = object_of(asked)
        if entries is None:
            raise ValueError("inputRequests must be an object")
        if len(entries) > questions.MOST_OF_A_CALL:
            most = questions.MOST_OF_A_CALL
            raise ValueError(f"there are {len(entries)} inputRequests, and {most} may be open")
        requests = {key: _input_request(key, raw) for key, raw in entries.items()}
    if not requests and state == b"null":
        raise ValueError("there are neither inputRequests nor a requestState")
    return Input(requests, None if state == b"null" else state)


def _input_request(key: str, raw: Raw) -> tuple[str, bytes | None]:
    members = object_of(raw)
    if members is None:
        raise ValueError(f"the input request {key!r} is not an object")
    method = text(members.get("method", _ABSENT))
    if method not in questions.METHODS:
        raise ValueError(f"the input request {key!r} has the unknown method {method!r}")
    params = bytes(members.get("params", _ABSENT))
    if params == b"null":
        if method != questions.ROOTS:
            raise ValueError(f"the input request {key!r} has no params")
        return method, None
    if object_of(params) is None:
        raise ValueError(f"the params of the input request {key!r} are not an object")
    return method, params


def input_required(
    requests: Mapping[str, tuple[str, bytes | None]], state: str, info: bytes
) -> bytes:
    """Write a result that asks the client for input; ``state`` is what it brings back."""
    asked = {key: _asked(method, params) for key, (method, params) in requests.items()}
    said = b'"inputRequests":%b,' % object_from(asked) if asked else b""
    return b'{"resultType":"input_required",%b"requestState":%b,"_meta":{"%b":%b}}' % (
        said,
        quote(state),
        SERVER_INFO_KEY.encode(),
        info,
    )


def _asked(method: str, params: bytes | None) -> bytes:
    if params is None:
        return b'{"method":%b}' % quote(method)
    return b'{"method":%b,"params":%b}' % (quote(method), params)


def retry_params(
    params: Raw | bytes | None, responses: Mapping[str, bytes], state: bytes | None
) -> bytes:
    """Return a request's parameters with the client's answers, and the server's state for them.

    Each is left out where there is none: nothing was asked, or no state was given.
    """
    said = []
    if responses:
        said.append(b'"inputResponses":%b' % object_from(responses))
    if state is not None:
        said.append(b'"requestState":%b' % state)
    own = without_answers(params) or b"{}"
    return splice.in_front(own, b",".join(said)) if said else own


def without_answers(params: Raw | bytes | None) -> bytes | None:
    """Return a request's parameters as they were before anybody was asked."""
    return None if params is None else splice.without(params, ANSWER_KEYS)


# -- listening -------------------------------------------------------------------------------------


class Listen(msgspec.Struct, frozen=True):
    """What a ``subscriptions/listen`` wants to hear, or will."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()


MOST_NAMES: Final = 1000
"""Of the resources, or tasks, of a listen, no more than this and one are read."""


def read_listen(params: Raw | bytes) -> Listen:
    """Read what is to be heard, from the request or from its acknowledgement.

    Raises:
        ValueError: the sender's fault; the text says what is wrong.
    """
    wanted = object_of((object_of(params) or {}).get("notifications", _ABSENT))
    if wanted is None:
        raise ValueError("notifications must be an object")
    return Listen(
        tools=_flag(wanted, "toolsListChanged"),
        prompts=_flag(wanted, "promptsListChanged"),
        resources=_flag(wanted, "resourcesListChanged"),
        uris=_names(wanted, "resourceSubscriptions"),
        tasks=_names(wanted, "taskIds"),
    )


def _flag(members: Mapping[str, Raw], name: str) -> bool:
    raw = bytes(members.get(name, _ABSENT))
    if raw not in (b"true", b"false", b"null"):
        raise ValueError(f"notifications.{name} must be a boolean")
    return raw == b"true"


def _names(members: Mapping[str, Raw], name: str) -> tuple[str, ...]:
    raw = members.get(name, _ABSENT)
    found = _texts(raw)
    if found is None and bytes(raw) != b"null":
        raise ValueError(f"notifications.{name} must be an array of strings")
    return tuple(found or ())


def listen_params(listen: Listen) -> bytes:
    """Write the parameters of a ``subscriptions/listen``, or of what acknowledges one."""
    wanted: dict[str, bytes] = {}
    if listen.tools:
        wanted["toolsListChanged"] = b"true"
    if listen.prompts:
        wanted["promptsListChanged"] = b"true"
    if listen.resources:
        wanted["resourcesListChanged"] = b"true"
    if listen.uris:
        wanted["resourceSubscriptions"] = _array(listen.uris)
    if listen.tasks:
        wanted["taskIds"] = _array(listen.tasks)
    return b'{"notifications":%b}' % object_from(wanted)


def acknowledged(ident: bytes, listen: Listen) -> bytes:
    """Write the first notification of a listen: what of it is going to be heard."""
    return tagged(listen_params(listen), ident)


def tagged(params: Raw | bytes | None, ident: bytes) -> bytes:
    """Return a notification's parameters with the id of the listen that it belongs to."""
    said = _SUBSCRIPTION_QUOTED + ident
    if params is None:
        return b'{"_meta":{%b}}' % said
    return _with_meta(params, said, (SUBSCRIPTION_KEY,))


def untagged(params: Raw | bytes | None) -> tuple[bytes | None, bytes]:
    """Return a notification's parameters without the id of its listen, and that id.

    The id is empty where there is none. What is empty without it goes as well.
    """
    left, taken = _without_meta(params, (SUBSCRIPTION_KEY,))
    return left, bytes(taken.get(SUBSCRIPTION_KEY, b""))


def listen_result(ident: bytes, *, is_draining: bool = False) -> bytes:
    """Write the result with which a listen ends.

    ``is_draining``: only because the daemon does, so a bridge goes on with the next one.
    """
    why = b',"%b":true' % DRAINING_KEY.encode() if is_draining else b""
    key = SUBSCRIPTION_KEY.encode()
    return b'{"resultType":"complete","_meta":{"%b":%b%b}}' % (key, ident, why)


# -- inside ----------------------------------------------------------------------------------------


def _with_meta(item: Raw | bytes, said: bytes, instead_of: Collection[str]) -> bytes:
    """Put members into ``_meta``, before its own, instead of those with the same names."""
    members = object_of(item)
    if members is None:
        return bytes(item)
    if "_meta" not in members:
        return splice.in_front(item, b'"_meta":{%b}' % said)
    own = members["_meta"]
    left = splice.without(own, instead_of) if object_of(own) is not None else b"{}"
    return splice.replace(item, "_meta", splice.in_front(left, said))


def _without_meta(
    item: Raw | bytes | None, names: Collection[str]
) -> tuple[bytes | None, dict[str, Raw]]:
    """Take members out of ``_meta``; return what is left, and what was taken."""
    if item is None:
        return None, {}
    own = (object_of(item) or {}).get("_meta", _ABSENT)
    meta = object_of(own) or {}
    taken = {name: meta[name] for name in names if name in meta}
    if not taken:
        return bytes(item), {}
    if len(taken) < len(meta):
        return splice.replace(item, "_meta", splice.without(own, names)), taken
    left = splice.without(item, ("_meta",))
    return None if splice.is_empty(left) else left, taken


def _texts(raw: Raw | bytes) -> list[str] | None:
    """Read the first strings of an array; ``None`` where it is something else."""
    try:
        found = [text(element) for element in splice.elements(bytes(raw), MOST_NAMES + 1)]
    except ValueError:
        return None
    read = [one for one in found if one is not None]
    return read if len(read) == len(found) else None


def _array(texts: tuple[str, ...]) -> bytes:
    return b"[" + b",".join(quote(one) for one in texts) + b"]"
