"""Being the one daemon of a user."""
