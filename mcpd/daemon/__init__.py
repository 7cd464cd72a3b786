"""The daemon, wired together: its parts are built, started and stopped here.

``server_side`` builds the parts that deal with servers, and ``client_side`` from them those that
deal with clients. ``wiring`` connects the two, and ``run`` starts and stops them. ``dispatcher``
passes events to the core and performs its commands; ``downstream`` holds the sessions of clients
and the listeners they come from. ``servers`` has what is configured and brought, ``control``
answers control requests, ``approvals`` asks whether calls may run, and ``upkeep`` looks after the
daemon itself.
"""
