"""The process for signing in, which alone needs the official SDK and the keyring.

``main`` carries out one order of the daemon; ``flow`` drives the SDK's provider, ``sender`` sends
its requests, ``listener`` takes the address that the browser ends at, and ``keyrings`` uses the
keyring.
"""
