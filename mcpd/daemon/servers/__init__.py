"""The servers there are, configured or brought by clients, as the core and the upstreams need them.

``server`` turns an entry of the configuration into values, ``registry`` holds them, ``adhoc`` adds
what a client brings, ``cache`` remembers what a server listed, ``control`` starts and stops servers
on request, and ``memory_watch`` restarts those over their ``memory_max``.
"""
