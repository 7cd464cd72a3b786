"""Who there is: sessions, servers, their slots, and the ways from one to another.

``session`` is one client's connection with the requests that have no answer yet; ``state`` holds
all sessions and upstreams; ``slots`` says which process of a server a session uses, by
``slot_keys``; ``waiting`` is where a request waits for a process, a list or a log level before it
goes on. ``aggregate`` shows many servers as one, ``shown_lists`` has an aggregate for each way to
see them. ``judged`` and ``held_names`` apply what was found in definitions, or approved.
"""
