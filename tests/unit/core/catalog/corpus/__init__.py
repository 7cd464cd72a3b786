"""Texts of definitions: what attacks look like, and what authors of public servers write."""
