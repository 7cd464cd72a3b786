"""Requests to one process of a server: sent, waiting, in flight, answered.

``inflight`` is the table of requests without an answer, by wire id, and ``calls`` the object that
sends them and takes the answers. ``queue`` says which one is next when the server is full,
``call_gate`` which session may have calls in flight when a server asks questions, ``timeouts``
when one has taken too long, and ``noise`` what the process wrote that is no message. A request
begins with ``inflight.UpstreamRequest`` and ends in one place, ``Calls.end``.
"""
