"""When the certificate or the token in a file ends.

jwt and cryptography are imported only where there is one: without either, a daemon needs neither,
and starts sooner.
"""

_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


def expires_at_s(content: bytes) -> float | None:
    """The Unix time at which the first of the certificates (PEM) or the JSON Web Token ends.

    None: it is neither, or a token without an end. The signature of a token is not verified.
    """
    if _CERTIFICATE in content:
        return _first_end_s(content)
    import jwt

    try:
        claims = jwt.decode(
            content.strip(), options={"verify_signature": False, "verify_exp": False}
        )
        ends = claims.get("exp")
        return None if ends is None else float(ends)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        return None


def _first_end_s(content: bytes) -> float | None:
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        return None
    return min(one.not_valid_after_utc.timestamp() for one in certificates)
