"""The server side: what one server says of itself, lists and reports, across its processes.

``upstream`` is the state that outlives a process. ``era_detection`` and ``handshake`` find out
which protocol a process speaks; ``lists`` and ``client_lists`` hold what it listed, read list by
list (``list_reading``) and again after changes (``list_changes``); ``known`` is what the next
process takes over. ``subscriptions`` and ``listen_streams`` follow what changes there.
``log_level`` and ``roots_wait`` are what a process is told before it is called.
"""
