"""Calls that a person is asked about before they run.

``gate`` decides whether a call goes on, is refused, or is asked about. ``asking`` opens its
question and asks, at the client through ``client_forms``. ``answers`` makes an answer count, and
``remembered`` keeps it. Until then the call is in ``waiting_calls``, and its question in
``approval_questions``. A call's frame is kept as it came, and is what the server gets.
"""
