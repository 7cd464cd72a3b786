"""Closing the pipes of a child that no transport reads."""

from __future__ import annotations

import os

from mcpd.supervise.process import Child


def close_pipes(child: Child) -> None:
    """Close our ends of a child's pipes that are still open."""
    for fd in (child.stdin, child.stdout, child.stderr):
        if fd >= 0:
            os.close(fd)
    child.stdin = child.stdout = child.stderr = -1
