"""Secrets that entries of the configuration name: ``${keyring:NAME}``.

``places`` is where one can be kept besides the keyring, ``lookup`` finds them for the daemon,
``store`` sets and removes them for ``mcpctl``, ``uses`` says which entries name them. The keyring
itself is used by the process of ``mcpd.signin.worker`` alone.
"""
