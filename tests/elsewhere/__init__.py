"""The gateway on other systems."""
