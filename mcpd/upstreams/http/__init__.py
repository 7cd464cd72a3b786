"""Servers that are reached by URL: one connection pool and one session for each.

Knows no processes. ``host`` starts a connection for the supervisor, and nothing outside of this
package imports the HTTP client, which is loaded when the first remote server starts. There are
fifteen modules because what authorises a request, what carries it, and what reads its answer are
apart.
"""
