"""Clients over HTTP and on the socket, on the same servers: the front and the core against a model."""
