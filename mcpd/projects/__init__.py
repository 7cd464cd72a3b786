"""Project files of a workspace, and what a person has trusted."""
