"""The only door to the daemon."""
