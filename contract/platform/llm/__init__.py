"""The language model: what it is asked, and how its answers are used."""
