"""Gathering facts: what may fail or hang, each with an end."""
