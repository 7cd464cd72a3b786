"""Argument validation in a process of its own."""
