"""Questions whether calls may run, outside the mux.

``keeper`` tells people and takes their answers, ``rules_file`` keeps those that are remembered, and
``desktop`` shows notifications.
"""
