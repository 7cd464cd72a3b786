"""What peers may do, and what is hidden."""
