"""Facts to log lines and events."""
