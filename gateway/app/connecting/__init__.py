"""The clients that can be connected, and how each is told of this gateway."""
