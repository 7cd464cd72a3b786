"""Child processes: started, observed, and stopped with all their descendants.

``spawn`` starts a ``process``, the ``reaper`` collects exit statuses, the ``ladder`` stops a
process and its ``tree``, and ``containers`` does that for containers through their ``engine``. A
``slot`` holds one server's process and its restart state; the ``supervisor`` runs all slots. The
process table of the kernel is read in ``proctable``, the ``PATH`` of the login shell is found in
``loginenv``, and ``cleanup`` ends what is left when a daemon dies.
"""
