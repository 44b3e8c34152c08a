"""Connecting clients: which clients there are, the entry of each, and the files that hold it."""
