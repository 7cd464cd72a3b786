"""One command or one noun's verbs each."""
