"""What servers say of themselves, judged before any client gets it.

A list that has arrived is examined (``examinations``) and compared with what a person approved
(``approved``); ``served`` is what clients get of it, ``held_refusals`` what they may not use.
``findings`` are the suspicious texts in it, ``reports`` the facts that are told. ``definitions``
has all of this for one server, ``all_definitions`` for all servers.
"""
