"""What is wrong on this machine, and what to do about it: for ``mcpctl doctor``.

It must work where the daemon does not, so it looks at files, processes and limits by itself, and
only then asks the daemon. ``look`` gathers facts and judges nothing, ``check`` turns facts into
findings and looks at nothing.
"""
