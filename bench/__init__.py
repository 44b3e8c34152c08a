"""The budgets of the design, measured side by side in one run: `python -m bench`."""
