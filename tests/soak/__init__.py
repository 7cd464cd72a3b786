"""A long run: servers and sessions that misbehave at random, and a daemon that must not notice."""
