"""Requests to one process of a server: sent, waiting, in flight, answered.

``calls`` is the object that sends requests, takes the answers, and ends each submitted request in
one place, ``Calls.end``. A request (``inflight.UpstreamRequest``) waits for a process to be ready
(``start_wait``), then for its session's turn if the server asks questions (``call_gate``,
``given_up``), then for room (``room``), and is then in the table of ``inflight``. ``timeouts`` tell
when one has taken too long, ``loss`` how one ends with its process, ``unwritten`` what a process
does not read, ``noise`` what it wrote that is no message. ``own_requests`` are ours, ``usage``
whether there is any use of the server. There are fifteen modules because each is
one thing that can happen to a request, and is read alone.
"""
