"""Control requests, which ``mcpctl`` makes.

``handlers`` has the table of methods. Each group of methods has a module that does the work:
``server_handlers``, ``stream_handlers``, ``project_handlers``, ``pin_handlers`` and
``login_handlers``, which is imported for the first sign-in. ``status`` collects what
``mcpctl status`` shows.
"""
