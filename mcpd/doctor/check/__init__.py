"""Facts in, findings out."""
