"""Signing in to remote servers, once for everybody: OAuth as MCP has it.

``authorizer`` adds the token to requests and renews it, ``logins`` lets a person sign in,
``credentials`` and ``store`` are what is kept. What needs the official SDK or the keyring runs in a
process of its own (``worker``), which is started for it and gone after it.
"""
