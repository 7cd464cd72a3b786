"""What the daemon reports of itself: log lines and events, made from facts.

``observer`` decides what each fact is called and how severe it is. ``pipeline`` passes log events
through the ``processors`` of structlog to the daemon's log, which ``mcpd.logfiles`` writes.
``journal`` numbers the events of the control protocol.
"""
