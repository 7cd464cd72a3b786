"""A model of the gate: what may reach a server, said once more and by other means."""
