"""What crosses the control socket."""
