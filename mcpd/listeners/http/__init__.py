"""MCP over HTTP: an ASGI application on uvicorn, inside the daemon's loop.

``application`` takes each request through the guards and to its endpoint; ``exchange`` is one
request and its response. ``legacy`` serves the sessions of the handshake revisions, whose streams
are kept in ``streams`` so that a client can resume them; ``stateless`` serves requests that stand
alone, among them those of the modern revision, whose headers ``routing`` checks. ``server`` opens
and closes the addresses. Nothing of this package is imported while no address is configured.
"""
