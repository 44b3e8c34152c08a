"""How many everyday questions are answered, and how many facts told in a session are found."""
