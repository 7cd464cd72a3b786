"""The configuration: found, read, checked and compared.

``load`` reads and merges the files into ``schema``'s types, and ``entry`` resolves one server's
entry. ``reading`` turns the tables of a file into values, with the position of each problem, and
``texts`` resolves the variables in them and decides what of them may be shown. ``diff`` compares
two configurations for a reload and ``explain`` is the text of ``mcpd --check-config``. Everything
that touches files is in ``files``.
"""
