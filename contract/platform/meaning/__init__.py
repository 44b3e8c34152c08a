"""Meaning as numbers: vectors of texts, and what they add to a search by words."""
