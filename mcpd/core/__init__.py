"""Decides: events and the time go in, commands come out; no I/O.

Each package knows those below it. From the top: ``mux``, ``downstream``, ``questions``, ``state``,
``upstream``, ``requests``, ``interface``; then what needs none of these: ``catalog``, ``policy``
and ``lifecycle``, ``mcp``, ``wire``, ``facts``. An import contract in ``pyproject.toml`` holds
this order.
"""
