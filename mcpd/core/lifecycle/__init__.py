"""When a server lives."""
