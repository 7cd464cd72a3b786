"""The configuration: found, read, checked and compared.

``load`` reads and merges the files into ``schema``'s types; ``entry`` resolves one server's
entry, ``values``, ``tables`` and ``findings`` check it with the position of each problem, and
``secrets`` decides what of it may be shown. ``diff`` compares two configurations for a reload and
``explain`` is the text of ``mcpd --check-config``. Everything that touches files is in ``files``.
"""
