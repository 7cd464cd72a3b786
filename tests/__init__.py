"""Tests of mcpd; tests/README.md says which kind lives where."""
