"""A small certificate authority of one cluster.

Its certificate has the SPIFFE ID of the cluster as a trust domain. Keys are of the curve P-256, and
certificates follow RFC 5280. Nothing here reads or writes files.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Self, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker_ctl.errors import InvalidName, SettingsError
from broker_ctl.security.certificates.peer_certificate import SCHEME, is_spiffe_id, trust_domain_uri

E = TypeVar("E", bound=x509.ExtensionType)

# Clocks of other machines may be late.
_BACKDATED: Final = dt.timedelta(minutes=5)
_MAX_COMMON_NAME: Final = 64
_NO_USE: Final = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who gets a certificate.

    Attributes:
        common_name: the role of a client; empty: the certificate has none.
        hosts: names and IP addresses at which it is a server; none: it is a client only.
        uris: SPIFFE IDs.
    """

    common_name: str = ""
    hosts: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*([self.common_name] if self.common_name else []), *self.hosts, *self.uris)


class CertificateAuthority:
    """Issues certificates, and renews those that it has issued.

    Attributes:
        cluster: name of the cluster.
        certificate: its own, in PEM.
        expires: its end, in UTC.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key
        self.cluster: Final = _cluster_of(certificate)
        self.certificate: Final = certificate.public_bytes(serialization.Encoding.PEM)
        self.expires: Final = certificate.not_valid_after_utc

    @classmethod
    def create(cls, cluster: str, now: dt.datetime, days: int) -> Self:
        """A new authority, with a new key.

        Raises:
            InvalidName: the name of the cluster cannot be that of a trust domain.
        """
        domain, key = trust_domain_uri(cluster), ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{cluster:.50} authority")])
        usage = x509.KeyUsage(**{**_NO_USE, "key_cert_sign": True, "crl_sign": True})
        builder = (
            _builder(name, name, key.public_key(), now, now + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(domain)]),
                critical=False,
            )
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Self:
        """Read both in PEM.

        Raises:
            SettingsError: they are malformed, do not belong together, or are not of an authority
                that `create` made.
        """
        try:
            loaded = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, None)
        except (ValueError, TypeError) as error:
            raise SettingsError(f"no certificate and key in PEM form: {error}") from error
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise SettingsError("the key is not one of broker-ctl ca init")
        if private.public_key() != loaded.public_key():
            raise SettingsError("the key is not that of the certificate")
        if not _is_authority(loaded):
            raise SettingsError("the certificate is not one of an authority")
        return cls(loaded, private)

    @property
    def private_key(self) -> bytes:
        """Its key, in PEM (PKCS#8, not encrypted)."""
        return _pem_of(self._key)

    def issue(self, holder: Holder, now: dt.datetime, days: int) -> tuple[bytes, bytes]:
        """A certificate and its new key, both in PEM.

        Raises:
            InvalidName: a name is too long or malformed, or it would outlive the authority.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [*map(_host_name, holder.hosts)]
        alternatives += [x509.UniformResourceIdentifier(uri) for uri in holder.uris]
        extension = x509.SubjectAlternativeName(alternatives) if alternatives else None
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if holder.hosts:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        certificate = self._sign(
            _subject(holder.common_name, self.cluster),
            key.public_key(),
            extension,
            x509.ExtendedKeyUsage(uses),
            (now, self._end_of(now, days)),
        )
        return certificate, _pem_of(key)

    def renew(self, certificate: bytes, now: dt.datetime, days: int) -> tuple[Holder, bytes]:
        """Who has a certificate, in PEM, and a later one with the same names, uses and key.

        Raises:
            InvalidName: this authority did not issue it, it is one of an authority, or the later
                one would outlive this one.
        """
        try:
            old = x509.load_pem_x509_certificate(certificate)
            old.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature) as error:
            raise InvalidName("this authority did not issue the certificate") from error
        if _is_authority(old):
            raise InvalidName("it is the certificate of an authority: broker-ctl ca init")
        names = _extension(old, x509.SubjectAlternativeName)
        uses = _extension(old, x509.ExtendedKeyUsage)
        key = old.public_key()
        if uses is None or not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidName("the certificate is not one of broker-ctl ca issue")
        end = self._end_of(now, days)
        return holder_of(old), self._sign(old.subject, key, names, uses, (now, end))

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        names: x509.SubjectAlternativeName | None,
        uses: x509.ExtendedKeyUsage,
        validity: tuple[dt.datetime, dt.datetime],
    ) -> bytes:
        issuer = self._certificate
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        usage = x509.KeyUsage(**{**_NO_USE, "digital_signature": True})
        builder = (
            _builder(subject, issuer.subject, key, *validity)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(uses, critical=False)
            .add_extension(identifier, critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _end_of(self, now: dt.datetime, days: int) -> dt.datetime:
        end = now + dt.timedelta(days=days)
        if end > self.expires:
            left = max(0, (self.expires - now).days)
            raise InvalidName(
                f"{days} days are beyond the end of the authority on {self.expires:%Y-%m-%d}: "
                f"{left} days at most"
            )
        return end


def holder_of(certificate: x509.Certificate) -> Holder:
    """Who has a certificate."""
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = _extension(certificate, x509.SubjectAlternativeName)
    hosts: Sequence[str] = ()
    uris: Sequence[str] = ()
    if names is not None:
        addresses = map(str, names.get_values_for_type(x509.IPAddress))
        hosts = (*names.get_values_for_type(x509.DNSName), *addresses)
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return Holder(str(common[0].value) if common else "", tuple(hosts), tuple(uris))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: dt.datetime,
    end: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(common_name: str, cluster: str) -> x509.Name:
    if len(common_name) > _MAX_COMMON_NAME or not common_name.isprintable():
        raise InvalidName(
            f"{common_name[:80]!r}: a common name has at most {_MAX_COMMON_NAME} printable "
            "characters"
        )
    named = [(NameOID.ORGANIZATION_NAME, cluster[:_MAX_COMMON_NAME])]
    if common_name:
        named.append((NameOID.COMMON_NAME, common_name))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in named])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise InvalidName(f"{host!r} is not the name of a host") from error


def _cluster_of(certificate: x509.Certificate) -> str:
    names = _extension(certificate, x509.SubjectAlternativeName)
    uris = [] if names is None else names.get_values_for_type(x509.UniformResourceIdentifier)
    domain = uris[0].removeprefix(SCHEME) if len(uris) == 1 and is_spiffe_id(uris[0]) else ""
    if not domain or "/" in domain:
        raise SettingsError("the certificate is not one of broker-ctl ca init")
    return domain


def _is_authority(certificate: x509.Certificate) -> bool:
    constraints = _extension(certificate, x509.BasicConstraints)
    return constraints is not None and constraints.ca


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
