"""When a server's process is started, restarted, given up and stopped."""
