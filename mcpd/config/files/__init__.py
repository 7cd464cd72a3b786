"""Configuration files: opened only when their owner and mode are safe, parsed, and watched.

``trust`` opens a file, ``jsonc`` and ``toml`` parse it into a ``document`` that knows the line and
column of every value, ``envfile`` reads ``KEY=VALUE`` lines, and ``watch`` reports changes, through
``inotify`` where there is one. Nothing here knows what a key means.
"""
