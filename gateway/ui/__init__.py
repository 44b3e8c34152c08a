"""The page for people: what is in a brain, read, corrected and asked, in a browser."""
