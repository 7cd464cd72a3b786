"""Configuration files of any program, changed by the smallest edit.

``file`` parses a file and applies edits to it: each is a splice of its text, so that everything
else stays as its author wrote it. ``replace`` puts the result in the place of a file that other
programs write, too.
"""
