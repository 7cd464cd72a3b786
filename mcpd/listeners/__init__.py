"""Downstream connections: we accept."""
