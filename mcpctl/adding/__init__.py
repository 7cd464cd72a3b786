"""What ``mcpctl add`` is told to add: its words taken apart, and the entries that they mean."""
