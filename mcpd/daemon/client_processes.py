"""Which processes are clients: what runs below one may not decide for a person."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mcpd.api.requests import AttachParams
from mcpd.bridge.attachment import CLIENT
from mcpd.core.facts import Failure
from mcpd.core.mux.mux import Mux
from mcpd.ids import SessionId
from mcpd.supervise.proctable import ancestry, procfs
from mcpd.supervise.proctable.procfs import ProcId


class ClientProcesses:
    """The processes behind the connections of the socket, as the kernel names them.

    A client is the process at the other end, or the one that started it if that is a bridge. A pid
    that a client gives counts besides, and replaces nothing.
    """

    def __init__(self, mux: Mux) -> None:
        self._mux = mux
        self._peers: dict[SessionId, int | None] = {}
        self._clients: dict[SessionId, set[ProcId]] = {}

    def connected(self, session: SessionId, pid: int | None) -> None:
        """Note the process of a new connection."""
        self._peers[session] = pid

    def attached(self, session: SessionId, params: AttachParams) -> None:
        """Note the client of a connection that becomes a session, while it surely lives."""
        client = params.client
        pids = {self._peers.get(session), None if client is None else client.pid}
        peer = self._peers.get(session)
        if peer is not None and client is not None and client.name == CLIENT:
            pids.add(ancestry.parent(peer))
        found = (procfs.identify(pid) for pid in pids if pid is not None)
        self._clients.setdefault(session, set()).update(each for each in found if each is not None)

    def closed(self, session: SessionId) -> None:
        """Forget a connection."""
        self._peers.pop(session, None)
        self._clients.pop(session, None)

    def refusal(self, session: SessionId) -> Failure | None:
        """Return why a connection may not decide for a person, or ``None`` if it may.

        Refused is who is, or runs below, a client or this daemon, and a process that cannot be
        seen from here: that of a container, or one with too many parents.
        """
        clients = set(self._all())
        peer = self._peers.get(session)
        chain = [] if peer is None else ancestry.chain(peer)
        is_seen = 0 < len(chain) < ancestry.MOST
        if is_seen and clients.isdisjoint(chain) and all(each.pid != os.getpid() for each in chain):
            return None
        return Failure(
            kind="denied",
            message="asked by the program that you are in, or below it",
            hint="answer in a terminal of your own",
            details={"reason": "asker"},
        )

    def _all(self) -> Iterator[ProcId]:
        for each in self._mux.sessions():
            session = SessionId(each.session)
            known = self._clients.get(session)
            if known is not None:
                yield from known
            elif (pid := self._peers.get(session)) is not None:
                found = procfs.identify(pid)
                if found is not None:
                    yield found
