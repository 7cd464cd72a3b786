"""The rules of the MCP specification, as functions from message to message.

Revisions and eras, the table of methods, error codes, what each era's messages look like, and the
translation between the eras. Nothing here keeps state about a session or a server.
There are fifteen modules because each is one subject of the specification.
"""
