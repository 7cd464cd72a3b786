"""The ``subscriptions/listen`` requests that are open at one modern process.

There is one for its lists, and one for each resource or task that a client follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from mcpd.core.catalog.model import Kind
from mcpd.core.interface.commands import ToServer
from mcpd.core.interface.context import Context, Timer
from mcpd.core.mcp import codes, legacy, modern_meta
from mcpd.core.mcp.client_info import ClientInfo
from mcpd.core.mcp.introduction import TASKS_EXTENSION, Introduction
from mcpd.core.mcp.listen import Listen, listen_params, read_listen
from mcpd.core.mcp.methods import CLIENT_REQUESTS
from mcpd.core.requests.calls import Calls
from mcpd.core.requests.inflight import OURS, Recipient, UpstreamRequest
from mcpd.core.upstream.subscriptions import Task, Topic, Topics
from mcpd.core.wire import envelope
from mcpd.core.wire.wire_ids import wire_id_of

Opened = Callable[[Raw | bytes | None], None]
"""Called once: with an error, or with ``None`` when the server has acknowledged the stream."""

ACKNOWLEDGE_S: Final = 10.0
"""Seconds that the server has to acknowledge the listen for a resource or a task."""

AGAIN_S: Final = 1.0
AGAIN_MOST_S: Final = 60.0
"""Seconds until a listen that the server ended is opened again: doubled each time, up to this."""

_LISTEN: Final = CLIENT_REQUESTS["subscriptions/listen"]


class _ListenStream:
    def __init__(self, listen: Listen, topic: Topic | None, opened: Opened | None) -> None:
        self.listen = listen
        self.honoured = listen
        """As much of it as the server can tell of; all of it until it has said so."""
        self.topic = topic
        self.opened = opened  # until it was called
        self.wire_id = 0  # 0: it is not open
        self.is_acknowledged = False  # the server has acknowledged it
        self.was_acknowledged = False
        self.acknowledged_at = 0.0
        self.tries = 0  # since it last stood for a while
        self.timer: Timer | None = None  # for its acknowledgement, or to open it again

    def drop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class ListenStreams:
    """The streams of notifications from one process.

    A listen request is not answered until its stream ends: it does not count as in flight, has no
    time-out, and a server that has only these is idle. One that the server ends is opened again
    while the process lives.
    """

    def __init__(self, ctx: Context, calls: Calls, reopened: Callable[[list[Kind]], None]) -> None:
        """``reopened`` is called with the lists of which the server has reported no changes for a
        time.
        """
        self._ctx = ctx
        self._calls = calls
        self._reopened = reopened
        self._open: dict[int, _ListenStream] = {}
        self._topics: dict[Topic, _ListenStream] = {}
        self._parents = Topics()
        self._lists: _ListenStream | None = None

    def __len__(self) -> int:
        return len(self._topics) + (self._lists is not None)

    def hears(self, kind: Kind) -> bool:
        """Tell whether the server has agreed to say when a list changes, or may still agree."""
        stream = self._lists
        if stream is None or not stream.wire_id:
            return False
        return bool(getattr(stream.honoured, kind.capability))

    def follow_lists(self, introduction: Introduction) -> None:
        """Listen for changes of those lists of which the server reports changes."""
        names = legacy.LIST_CHANGED
        tools, prompts, resources = (introduction.has(name, "listChanged") for name in names)
        if tools or prompts or resources:
            listen = Listen(tools=tools, prompts=prompts, resources=resources)
            self._lists = _ListenStream(listen, None, None)
            self._send(self._lists)

    def follow(self, topic: Topic, opened: Opened) -> None:
        """Hear when a resource or a task changes."""
        listen = Listen(tasks=(topic.id,)) if isinstance(topic, Task) else Listen(uris=(topic,))
        stream = self._topics[topic] = _ListenStream(listen, topic, opened)
        self._parents.add(topic)
        stream.timer = self._ctx.after(ACKNOWLEDGE_S, lambda: self._unacknowledged(stream))
        self._send(stream)

    def leave(self, topic: Topic) -> None:
        """Hear no more of a resource or a task."""
        stream = self._topics.pop(topic, None)
        self._parents.discard(topic)
        if stream is not None:
            self._close(stream)

    def down(self) -> None:
        """The process is gone, and all its listens with it."""
        for stream in self._all():
            stream.drop_timer()
        self._open.clear()
        self._topics.clear()
        self._parents = Topics()
        self._lists = None

    # -- what the server says ----------------------------------------------------------------------

    def acknowledged(self, params: Raw) -> None:
        """Take an acknowledgement: it says which of the changes the server can report."""
        stream = self._open.get(self._id_in(params) or 0)
        if stream is None or stream.is_acknowledged:
            return
        try:
            honoured = read_listen(params)
        except ValueError:
            honoured = stream.listen  # all of it, whatever the server says
        stream.honoured = honoured
        heard = (*honoured.uris, *(Task(ident) for ident in honoured.tasks))
        if stream.topic is not None and stream.topic not in heard:
            self._refused(stream, f"the server does not tell of changes of {_name(stream.topic)}")
            return
        is_again = stream.was_acknowledged
        stream.is_acknowledged = stream.was_acknowledged = True
        stream.acknowledged_at = self._ctx.now
        stream.drop_timer()
        if stream.opened is not None:
            opened, stream.opened = stream.opened, None
            opened(None)
        elif is_again:
            self._reopened([kind for kind in Kind if getattr(stream.listen, kind.capability)])

    def ended(self, wire_id: int, error: Raw | bytes | None = None) -> bool:
        """An answer came to a listen, or the server gave it up; tell whether it was one of ours."""
        stream = self._open.pop(wire_id, None)
        if stream is None:
            return False
        was_open, stream.is_acknowledged, stream.wire_id = stream.is_acknowledged, False, 0
        stream.drop_timer()
        if stream.opened is not None:
            opened, stream.opened = stream.opened, None
            self._forget(stream)
            why = "the server ended the listen before it acknowledged it"
            opened(error or codes.plain_error(codes.INTERNAL_ERROR, why))
        elif error is not None and _code_of(error) == codes.METHOD_NOT_FOUND:
            self._forget(stream)
        else:
            if was_open and self._ctx.now - stream.acknowledged_at >= AGAIN_MOST_S:
                stream.tries = 0
            wait = min(AGAIN_MOST_S, AGAIN_S * 2.0 ** min(stream.tries, 10))
            stream.tries += 1
            stream.timer = self._ctx.after(wait, lambda: self._send_again(stream))
        return True

    def carries(self, params: Raw | bytes | None) -> bool:
        """Tell whether a notification came by a listen of ours, or by none at all."""
        wire_id = self._id_in(params)
        return wire_id is None or wire_id in self._open

    def carries_update(self, params: Raw, topic: Topic) -> bool:
        """Do the same for a list, if this is the stream of several that counts.

        An update of a part comes by the listen for it and by those for what it is a part of.
        """
        wire_id = self._id_in(params)
        if wire_id is None:
            return True
        stream = self._open.get(wire_id)
        if stream is None:
            return False
        longest = stream.topic
        for own in (*self._parents.parents(topic), topic):
            other = self._topics.get(own)
            if other is not None and other.is_acknowledged:
                longest = own
        return stream.topic is None or stream.topic == longest

    # -- inside ------------------------------------------------------------------------------------

    def _all(self) -> list[_ListenStream]:
        return [*self._topics.values(), *([] if self._lists is None else [self._lists])]

    def _send_again(self, stream: _ListenStream) -> None:
        stream.timer = None
        self._send(stream)

    def _send(self, stream: _ListenStream) -> None:
        leg = UpstreamRequest(OURS, _LISTEN, listen_params(stream.listen), _NOBODY)
        if stream.listen.tasks:
            leg.client_info = _with_tasks(self._calls.ours)
        self._calls.place(leg)
        self._calls.inflight.close(leg.wire_id)  # it is here that its answer is expected
        if leg.is_over:
            self._refused(stream, "it is too long to be sent")
            return
        stream.wire_id = leg.wire_id
        self._open[stream.wire_id] = stream

    def _unacknowledged(self, stream: _ListenStream) -> None:
        stream.timer = None
        self._refused(stream, f"the server did not acknowledge the listen in {ACKNOWLEDGE_S:g} s")

    def _refused(self, stream: _ListenStream, why: str) -> None:
        opened, stream.opened = stream.opened, None
        self._close(stream)
        self._forget(stream)
        if opened is not None:
            opened(codes.plain_error(codes.INVALID_PARAMS, why))

    def _close(self, stream: _ListenStream) -> None:
        stream.drop_timer()
        if self._open.pop(stream.wire_id, None) is not None:
            params = b'{"requestId":%d}' % stream.wire_id
            line = envelope.notification(b'"notifications/cancelled"', params)
            self._ctx.emit(ToServer(self._calls.slot, line, cancels=stream.wire_id))
        stream.wire_id, stream.is_acknowledged = 0, False

    def _forget(self, stream: _ListenStream) -> None:
        if stream is self._lists:
            self._lists = None
        elif stream.topic is not None and self._topics.get(stream.topic) is stream:
            del self._topics[stream.topic]
            self._parents.discard(stream.topic)

    def _id_in(self, params: Raw | bytes | None) -> int | None:
        found = envelope.params_of(params) if params is not None else None
        meta = found.meta if found is not None else UNSET
        members = envelope.object_of(meta) if meta is not UNSET else None
        ident = (members or {}).get(modern_meta.SUBSCRIPTION_KEY)
        return None if ident is None else wire_id_of(ident) or 0


_NOBODY: Final = Recipient()
"""Takes no answer: that of a listen is found by its id."""


def _code_of(error: Raw | bytes) -> int | None:
    code = bytes((envelope.object_of(error) or {}).get("code", Raw(b"")))
    return int(code) if code.removeprefix(b"-").isdigit() else None


def _name(topic: Topic) -> str:
    return f"task {topic.id}" if isinstance(topic, Task) else topic


def _with_tasks(client_info: ClientInfo) -> ClientInfo:
    """Return who declares the extension as well: without that a server refuses to tell."""
    members = envelope.object_of(client_info.capabilities) or {}
    members["extensions"] = Raw(envelope.object_from({TASKS_EXTENSION: b"{}"}))
    return msgspec.structs.replace(client_info, capabilities=envelope.object_from(members))
