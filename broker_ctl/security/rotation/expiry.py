"""When the certificate, the revocation list or the token in a file ends.

jwt and cryptography are imported only where there is one: without either, a daemon needs neither,
and starts sooner.
"""

import re
from typing import Final

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_REVOCATIONS: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


def expires_at_s(content: bytes) -> float | None:
    """The Unix time at which the first certificate or revocation list (PEM), or the token ends.

    None: it is none of these, or has no end. The signature of a JSON Web Token is not verified.
    """
    if lists := _REVOCATIONS.findall(content):
        return _first_update_s(lists)
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


def _first_update_s(lists: list[bytes]) -> float | None:
    from cryptography import x509

    try:
        updates = [x509.load_pem_x509_crl(one).next_update_utc for one in lists]
    except ValueError:
        return None
    return min((one.timestamp() for one in updates if one is not None), default=None)
