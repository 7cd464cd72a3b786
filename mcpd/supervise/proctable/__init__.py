"""The kernel's process table: identities of processes, their trees, and their memory.

``procfs`` reads ``/proc`` (``portable`` does so through psutil on macOS) and signals a process
only after verifying its identity; ``ownership`` assigns each process to the child that started it;
``memory`` adds up what a tree uses.
"""
