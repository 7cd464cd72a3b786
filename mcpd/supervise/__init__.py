"""Child processes: started, watched, stopped with their whole tree, and remembered on disk."""
