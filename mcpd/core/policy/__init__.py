"""What is known of commands: which servers keep state, run in containers or fetch packages."""
