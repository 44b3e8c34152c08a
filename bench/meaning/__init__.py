"""How well notes are found: by words, by meaning, and by both."""

# Before numpy, for which it chooses how many threads to use.
import contract.platform.meaning  # noqa: F401
