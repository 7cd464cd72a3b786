"""The client side: what each request of a client means, and which rule answers it.

``request_router`` chooses the rule: ``initialize`` for what a client learns first,
``list_requests`` for lists, ``forwarding`` for what a server answers, ``session_settings`` for log
levels, resource subscriptions and roots, ``client_subscriptions`` for ``subscriptions/listen``.
``gathering`` waits until several servers have listed, ``resource_owners`` finds the server of a
resource. Every request that reaches a server passes ``admission``. ``control`` is for requests of
people and scripts, ``lingering`` for clients that have ended their input.
"""
