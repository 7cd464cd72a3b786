"""The texts of an entry: variables, placeholders, and which parts of a text are secret.

``interpolate`` resolves the variables of one text, ``resolving`` those of an entry. ``secretnames``
and ``workspace`` are placeholders, which are filled in when a server starts or a session attaches.
``secrets`` recognises and masks what may not be shown.
"""
