"""Who may come in: tokens of ours, or those of an OAuth provider."""
