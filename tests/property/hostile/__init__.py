"""Hostile peers: millions of messages of all kinds, and others that must not notice."""
