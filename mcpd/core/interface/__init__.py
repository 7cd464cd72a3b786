"""What goes into the mux and what comes out of it.

``events`` are told to the mux, ``commands`` are what it asks to be done, ``entries`` describe the
servers that are configured, and ``failures`` are the errors that several of its parts answer with.
``context`` is what these parts share while one event is handled: the time, the timers, and the
commands collected so far.
"""
