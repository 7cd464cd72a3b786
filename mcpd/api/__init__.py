"""What crosses the control socket, as types: a promise, unlike the internals on either side."""
