"""The tables of a file, turned into the schema's types.

``tables`` knows every spelling of a key, ``remote_table`` those of a server that is reached by URL,
and ``policy_table`` those of what may be called. ``values`` validates and converts one value, and
``findings`` collects what is wrong, with its position. No variable is resolved here.
"""
