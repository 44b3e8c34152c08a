"""A language model by one setting: what it is asked, and what is made of its answers."""
