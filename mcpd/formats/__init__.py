"""Formats of configuration files, parsed into data that knows where each value stands.

``jsonc`` parses JSON, strict or with comments, ``toml`` TOML, and ``yaml`` YAML; each makes a
``document``. Nothing here knows what a key means, or opens a file.
"""
