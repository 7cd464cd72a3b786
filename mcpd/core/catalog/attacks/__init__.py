"""What attacks on models are made of: phrases, hidden commands, and characters that look alike."""
