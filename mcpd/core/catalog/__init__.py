"""What sessions are shown."""
