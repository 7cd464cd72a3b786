"""Configuration files: opened only when their owner and mode are safe, and watched.

``trust`` opens a file, ``envfile`` reads ``KEY=VALUE`` lines, and ``watch`` reports changes,
through ``inotify`` where there is one. Nothing here knows what a key means.
"""
