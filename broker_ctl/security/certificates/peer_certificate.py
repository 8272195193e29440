"""The certificate of the other side of a TLS connection.

cryptography is imported with the first of them: a daemon without TLS does not need it, and starts
sooner.
"""

import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from broker_ctl.security.certificates.spiffe import SCHEME, is_spiffe_id

if TYPE_CHECKING:
    from cryptography import x509

_MAX_CACHED: Final = 1024


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A certificate that the TLS handshake has verified.

    Attributes:
        subject: its distinguished name as RFC 4514 writes it, as in ``CN=client,O=example``.
        common_name: the CN of the subject; empty if it has none, or several.
        spiffe_ids: its SPIFFE IDs. That of a client has one at most, that of a broker may also have
            one for its number.
        expires_at_s: Unix time of its end (``notAfter``).
    """

    subject: str
    common_name: str
    spiffe_ids: tuple[str, ...]
    expires_at_s: float

    @classmethod
    def parse(cls, der: bytes) -> Self:
        """Read a certificate in DER.

        Raises:
            ValueError: it is malformed, or has a SPIFFE ID and another URI, or a malformed one.
        """
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        certificate = x509.load_der_x509_certificate(der)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return cls(
            subject=certificate.subject.rfc4514_string(),
            common_name=str(names[0].value) if len(names) == 1 else "",
            spiffe_ids=_spiffe_ids_of(certificate),
            expires_at_s=certificate.not_valid_after_utc.timestamp(),
        )


def peer_certificate(connection: Any) -> PeerCertificate | None:
    """The certificate of the other side; None: it has none that proves anything.

    ``connection`` is what a transport has as ``ssl_object``; None: it is not one of TLS.
    """
    # Without verification the handshake accepts any certificate.
    if connection is None or connection.context.verify_mode is ssl.CERT_NONE:
        return None
    der = connection.getpeercert(binary_form=True)
    return None if der is None else _parse(der)


@lru_cache(maxsize=_MAX_CACHED)
def _parse(der: bytes) -> PeerCertificate | None:
    from cryptography import x509

    try:
        return PeerCertificate.parse(der)
    # Extensions are only parsed here: OpenSSL has verified the signature over them.
    except (ValueError, x509.DuplicateExtension):
        return None


def _spiffe_ids_of(certificate: "x509.Certificate") -> tuple[str, ...]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if not any(uri.lower().startswith(SCHEME) for uri in uris):
        return ()
    if not all(map(is_spiffe_id, uris)):
        raise ValueError("a certificate with a SPIFFE ID has well-formed ones, and no other URI")
    return tuple(uris)
