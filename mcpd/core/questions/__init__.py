"""Requests of servers to clients, in both eras, and the calls that wait for the answers.

A legacy server sends a request (``questions``, ``question``), a modern one answers a call with
*input required* (``input_rounds``, with one ``input_loop`` for each call). A legacy client is sent
a request (``requests_to_clients``), a modern one gets an *input required* result while its call is
parked (``parked_calls``, ``parked_call``, ``input_answers``). ``roots`` are the directories that a
server is told of, ``url_elicitations`` the pages that a client was sent to.
"""
