"""When the certificate, the revocation list or the token in a file ends.

jwt and cryptography are imported only where there is one: without either, a daemon needs neither,
and starts sooner.
"""

import re
from dataclasses import dataclass
from typing import Final

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_REVOCATIONS: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """Of the certificate, revocation list or token in a file that ends first.

    Attributes:
        ends_at_s: Unix time.
        issued_at_s: the same, of a revocation list; None: it is none.
    """

    ends_at_s: float
    issued_at_s: float | None = None


def expires_at_s(content: bytes) -> float | None:
    """As `life_of`: only its end."""
    life = life_of(content)
    return None if life is None else life.ends_at_s


def life_of(content: bytes) -> Life | None:
    """Of the first certificate or revocation list (PEM), or of the token.

    None: it is none of these, or has no end. The signature of a JSON Web Token is not verified.
    """
    if lists := _REVOCATIONS.findall(content):
        return _first_list(lists)
    ends_at_s = _first_end_s(content) if _CERTIFICATE in content else _end_of_token_s(content)
    return None if ends_at_s is None else Life(ends_at_s)


def _end_of_token_s(content: bytes) -> float | None:
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


def _first_list(lists: list[bytes]) -> Life | None:
    from cryptography import x509

    try:
        read = [x509.load_pem_x509_crl(one) for one in lists]
    except ValueError:
        return None
    lives = (
        Life(one.next_update_utc.timestamp(), one.last_update_utc.timestamp())
        for one in read
        if one.next_update_utc is not None
    )
    return min(lives, default=None)
