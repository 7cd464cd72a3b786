"""Project files of a workspace, and what a person has trusted.

``workspace`` says which directory a session works in. ``files`` reads what its files offer,
``offer`` is one server there, ``repository`` says which directories share what is trusted. ``kept``
is the file with the answers of people, and ``states`` compares both.
"""
