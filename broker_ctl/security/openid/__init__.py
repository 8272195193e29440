"""Tokens of OpenID Connect issuers, whose keys are fetched over HTTPS."""
