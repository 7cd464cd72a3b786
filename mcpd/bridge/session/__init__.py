"""The session of a client, which outlives the daemon that it is attached to.

``state`` records the frames that pass and what a new daemon needs, with the ``queue`` of frames to
send, the ``questions`` of servers and the ``lists`` that the client has read; ``replay`` restores
all of it in a new daemon.
"""
