"""Who gets which message."""
