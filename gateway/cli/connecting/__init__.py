"""Connecting clients: which there are, what each is told, and the files that say so."""
