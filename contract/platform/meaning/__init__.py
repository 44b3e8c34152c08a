"""Meaning as numbers: vectors of texts, and what they add to a search by words."""

import os

# Set before numpy is imported for the first time. On a busy machine the threads of its library wait for each other
# without sleeping, and a product of small matrices then takes a hundred times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
