"""How well notes are found: by words, by meaning, and by both."""
