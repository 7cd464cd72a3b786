"""Servers as upstreams: when each is started and stopped, and what carries its frames.

``supervisor`` drives the lifecycle machine of each slot, whatever carries the server; ``starts``
queues starts; ``host`` says what a kind of upstream must do. ``stdio`` is the one kind today: a
process and its pipes. Only ``stdio`` knows processes.
"""
