"""Finding the daemon of a socket, and starting one: what every client and the bridge share.

``connection`` connects and checks who listens, ``deadline`` limits the wait for the first answer,
``search`` starts a daemon where none answers and waits for it, and ``unavailable`` explains why
none does. Standard library alone: every bridge loads this, so each module imports what it rarely
needs in the function that needs it.
"""
