"""Servers that are processes: spawning them, reading and writing their pipes, ending their trees.

``host`` starts processes, ``run`` is one process from its spawn to the end of its tree, ``pipes``
carries the frames, ``failures`` explains deaths, ``spec`` says how to run a process.
"""
