"""A login of our own, for those without an identity provider: a small OAuth 2.1 authorization server."""
