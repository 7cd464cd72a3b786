"""The only door of command-line programs to the daemon: blocking, standard library alone."""
