"""Upstream connections: we dial."""
