"""What a request says, read without I/O.

``guards`` checks its headers, ``paths`` and ``routing`` say what it is for, and ``messages`` reads
its body.
"""
