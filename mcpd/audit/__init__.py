"""What ran: each call's end and what was decided, in a file of SQLite; everything about SQL.

``writer`` takes rows on the event loop and writes them in a thread, through ``store`` and
``retention``. ``reader`` reads for people, also without a daemon. ``schema`` makes and checks the
file, ``record`` has the words of both sides.
"""
