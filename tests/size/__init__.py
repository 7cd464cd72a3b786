"""What a peer can make many or large of, each against a daemon that others use meanwhile."""
