"""Bytes to messages and back: framing, JSON-RPC messages, and changes of JSON without a copy.

Payloads are never parsed into Python objects: a message keeps the bytes of its members.
"""
