"""The tools, prompts and resources of servers: as listed, filtered, named, and merged.

The entries keep the bytes that their server sent. Everything is a value or a function of values.
"""
