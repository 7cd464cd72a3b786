"""What is known of commands (which keep state, run in containers, fetch packages), and rates."""
