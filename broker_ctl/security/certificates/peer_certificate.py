"""The certificate of the other side of a TLS connection, and which broker it proves."""

import re
import ssl
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from ssl import SSLContext, TLSVersion
from typing import TYPE_CHECKING, Any, Final, Self

from broker_ctl.errors import InvalidName

if TYPE_CHECKING:
    from cryptography import x509


# SPIFFE IDs, which certificates have as URIs among their subject alternative names.
#
# Source: *The SPIFFE Identity and Verifiable Identity Document*, section 2, and *X.509-SVID*,
# section 2 (github.com/spiffe/spiffe, ``standards``).


SCHEME: Final = "spiffe://"
_MAX_LENGTH: Final = 2048
_DOMAIN: Final = r"[a-z0-9._-]{1,255}"
_ID: Final = re.compile(rf"spiffe://{_DOMAIN}(/[A-Za-z0-9._-]+)*")
_PARTS: Final = 2
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


def is_spiffe_id(uri: str) -> bool:
    """Whether a URI is a SPIFFE ID: no port, user, query, percent sign or segment of dots."""
    if len(uri) > _MAX_LENGTH or _ID.fullmatch(uri) is None:
        return False
    return not {".", ".."} & set(uri.removeprefix(SCHEME).split("/")[1:])


def trust_domain_uri(cluster: str) -> str:
    """The SPIFFE ID of a cluster as a trust domain, which its authority has.

    Raises:
        InvalidName: the name of the cluster is not one of a trust domain.
    """
    if re.fullmatch(_DOMAIN, cluster) is None:
        raise InvalidName(
            f"clusterName {cluster!r} cannot be the trust domain of a SPIFFE ID, which has only "
            "lower-case letters, digits, '.', '-' and '_'"
        )
    return f"{SCHEME}{cluster}"


def broker_uri(cluster: str, broker_id: str) -> str:
    """The SPIFFE ID by which a certificate proves the id of a broker, ``host:port``.

    It is ``spiffe://CLUSTER/broker/HOST/PORT``: a segment of the path cannot have a colon. An IPv6
    address is written as its 32 digits, behind a segment ``ipv6``.

    Raises:
        InvalidName: a SPIFFE ID cannot hold the name of the cluster, or the id.
    """
    domain, (host, _, port) = trust_domain_uri(cluster), broker_id.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        try:
            host = f"ipv6/{IPv6Address(host[1:-1]).exploded.replace(':', '')}"
        except ValueError:
            host = ""
    elif _HOST.fullmatch(host) is None:
        host = ""
    uri = f"{domain}/broker/{host}/{port}"
    if not host or _PORT.fullmatch(port) is None or not is_spiffe_id(uri):
        raise InvalidName(f"{broker_id!r} is not the id of a broker, host:port")
    return uri


def broker_id_in(cluster: str, uri: str) -> str:
    """The id of the broker of a cluster that a SPIFFE ID proves; empty: it proves none."""
    head, _, path = uri.partition("/broker/")
    parts = path.split("/")
    try:
        if parts[0] == "ipv6" and len(parts) > _PARTS:
            parts[:2] = [f"[{IPv6Address(int(parts[1], 16))}]"]
        found = ":".join(parts)
        # What is written in another way than `broker_uri` does is not an id.
        is_own = head == f"{SCHEME}{cluster}" and broker_uri(cluster, found) == uri
    except (ValueError, InvalidName):
        return ""
    return found if is_own else ""


def replica_broker_uri(cluster: str, number: int) -> str:
    """The URI by which a certificate proves the number of a broker (``brokerId``)."""
    return f"{SCHEME}{cluster}/replica-broker/{number}"


# The certificate of the other side of a TLS connection.
#
# cryptography is imported with the first of them: a daemon without TLS does not need it, and
# starts sooner.


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


# The ids of brokers in the certificates of one cluster.


class BrokerIdentity:
    """Judges what certificates say of brokers; those of another cluster say nothing.

    Raises:
        InvalidName: the name of the cluster cannot be that of a trust domain.
    """

    def __init__(self, cluster: str) -> None:
        trust_domain_uri(cluster)
        self._cluster: Final = cluster

    def id_in(self, certificate: PeerCertificate) -> str:
        """The id of a broker of the cluster that a certificate proves; empty: it proves none.

        Of several ids, none.
        """
        found = [broker_id_in(self._cluster, uri) for uri in certificate.spiffe_ids]
        ids = [broker_id for broker_id in found if broker_id]
        return ids[0] if len(ids) == 1 else ""

    def is_of(self, certificate: PeerCertificate, broker_id: str) -> bool:
        """Whether a certificate proves this id of a broker."""
        try:
            return broker_uri(self._cluster, broker_id) in certificate.spiffe_ids
        except InvalidName:
            # A name from ZooKeeper that no certificate can have.
            return False


# The ciphers of TLS ports, by the names of OpenSSL or those of IANA, which Java has.
#
# A list only narrows what Python allows by default: forward secrecy, and no cipher that is known
# to be weak. Python's ssl cannot choose among the ciphers of TLS 1.3.


_NEWEST: Final = "TLSv1.3"
_NAME: Final = re.compile(
    r"(?P<exchange>ECDHE|DHE)-(?P<proof>ECDSA|RSA)-"
    r"(?:AES(?P<bits>128|256)(?P<mode>-GCM)?-(?P<hash>SHA\d+)|CHACHA20-POLY1305)"
)


def restrict(context: SSLContext, names: Sequence[str]) -> None:
    """Have a server's context speak no other ciphers; the first one is preferred.

    Versions of TLS of which no cipher is named are not spoken.

    Raises:
        ValueError: a name that OpenSSL does not know, or of a weak cipher; some, and not all,
            ciphers of TLS 1.3; none of a version that the context may speak.
    """
    versions = {one["name"]: one["protocol"] for one in context.get_ciphers()}
    known = {name: name for name in versions} | {_iana_name(name): name for name in versions}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is not a cipher of OpenSSL here, or a weak one: {', '.join(versions)}, "
            "and IANA's names of these, may be listed"
        )
    chosen = dict.fromkeys(known[name] for name in names)
    newest = {name for name, version in versions.items() if version == _NEWEST}
    older = [name for name in chosen if name not in newest]
    if len(older) == len(chosen):
        context.maximum_version = min(context.maximum_version, TLSVersion.TLSv1_2)
    elif not newest <= chosen.keys():
        raise ValueError(
            "ciphers of TLSv1.3 can only be listed all together, or none of them: "
            + ", ".join(sorted(newest))
        )
    if older:
        context.set_ciphers(":".join(older))
    else:
        context.minimum_version = TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise ValueError("none of them is of a version in tlsProtocols")


def _iana_name(name: str) -> str:
    """The name in the registry of IANA; the one of OpenSSL, where that has the same."""
    found = _NAME.fullmatch(name)
    if found is None:
        return name
    keys = f"TLS_{found['exchange']}_{found['proof']}_WITH"
    if found["bits"] is None:
        return f"{keys}_CHACHA20_POLY1305_SHA256"
    return f"{keys}_AES_{found['bits']}_{'GCM' if found['mode'] else 'CBC'}_{found['hash']}"


# TLS contexts for requests to one broker, whose certificate has to prove its id.
#
# The check is part of the handshake: before it nothing of a request is sent.


_MAX_CONTEXTS: Final = 1024
_MAX_SHOWN: Final = 200


class ProvingConnection(ssl.SSLObject):
    """A connection whose handshake fails with a server that is another broker, or none."""

    # No constructor is called: a context makes these objects.
    _identity: BrokerIdentity | None = None
    _broker_id = ""

    def require(self, identity: BrokerIdentity, broker_id: str) -> None:
        """Have the handshake require the id of this broker."""
        self._identity, self._broker_id = identity, broker_id

    def do_handshake(self) -> None:
        """See `ssl.SSLObject.do_handshake`.

        Raises:
            SSLCertVerificationError: also if the certificate does not prove the id.
        """
        super().do_handshake()
        if self._identity is None:
            return
        certificate = peer_certificate(self)
        if certificate is None or not self._identity.is_of(certificate, self._broker_id):
            named = () if certificate is None else certificate.spiffe_ids
            raise ssl.SSLCertVerificationError(
                f"the certificate does not prove the id {self._broker_id!r:.{_MAX_SHOWN}}: it has "
                + (", ".join(named)[:_MAX_SHOWN] or "no SPIFFE ID")
            )


class PeerContext(ssl.SSLContext):
    """Delegates each handshake to another context, and has it require the id of one broker."""

    _base: ssl.SSLContext
    _identity: BrokerIdentity
    _broker_id: str

    def __new__(cls, base: ssl.SSLContext, identity: BrokerIdentity, broker_id: str) -> Self:
        """A context of the same kind; it has no certificates, and is used for no handshake.

        ``base`` must make objects of `ProvingConnection`.
        """
        made = super().__new__(cls, base.protocol)
        made._base, made._identity, made._broker_id = base, identity, broker_id
        return made

    def __init__(self, base: ssl.SSLContext, identity: BrokerIdentity, broker_id: str) -> None:
        """See `__new__`."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`; asyncio and uvloop begin each handshake with it."""
        connection = self._base.wrap_bio(*arguments, **named)
        if not isinstance(connection, ProvingConnection):
            # Never without the check.
            raise ssl.SSLError("the context does not make connections that prove an id")
        connection.require(self._identity, self._broker_id)
        return connection

    def __repr__(self) -> str:
        return f"PeerContext({self._broker_id!r:.{_MAX_SHOWN}})"


class PeerContexts:
    """The context for each broker, up to a number; those used last are kept.

    Connections are pooled by context, so a request to one broker never takes that to another.
    """

    def __init__(self, base: ssl.SSLContext, identity: BrokerIdentity) -> None:
        self._base = base
        self._identity = identity
        self._contexts: OrderedDict[str, PeerContext] = OrderedDict()

    def of(self, broker_id: str) -> ssl.SSLContext:
        """The context for requests to a broker."""
        found = self._contexts.get(broker_id)
        if found is None:
            found = self._contexts[broker_id] = PeerContext(self._base, self._identity, broker_id)
            if len(self._contexts) > _MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(broker_id)
        return found
