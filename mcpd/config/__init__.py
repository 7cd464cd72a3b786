"""Files to values."""
