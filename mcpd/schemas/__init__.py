"""Validation of tool arguments against JSON schemas, in a separate process.

``validator`` is the daemon's side: it starts the worker, queues checks and applies time limits,
through the pipes of ``channel``. ``worker`` is the program that runs the checks and can be killed
at any time; ``wording`` writes its messages. ``protocol`` is the format on the pipes, and
``suggest`` finds similar names.
"""
