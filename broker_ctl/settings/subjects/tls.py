"""TLS certificates and keys of the servers, and of requests to other brokers."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import OWN_BROKER, RELOADED, TLS_PORT, either, given
from broker_ctl.settings.schema import Guard, Setting


class TlsProtocol(StrEnum):
    """Allowed versions of TLS; older ones are insecure."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS: certificates of the TLS ports, and of the requests to other brokers."""

    certificate_file: Annotated[
        Path | None,
        Setting(
            "tlsCertificateFilePath",
            "Certificate chain (PEM) of the TLS ports.",
            used_with=(TLS_PORT,),
            guard=Guard.TRUST,
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        Setting(
            "tlsKeyFilePath",
            "Private key (PEM, not encrypted) of tlsCertificateFilePath.",
            used_with=(TLS_PORT,),
            guard=Guard.SECRET,
        ),
    ] = None
    trust_certs_file: Annotated[
        Path | None,
        Setting(
            "tlsTrustCertsFilePath",
            "CA certificates (PEM) for verifying client certificates; empty: no client "
            "certificate is requested.",
            used_with=(TLS_PORT,),
            guard=Guard.TRUST,
        ),
    ] = None
    revocation_list_file: Annotated[
        Path | None,
        Setting(
            "tlsRevocationListFile",
            "Revocation lists (PEM) of the authorities in tlsTrustCertsFilePath and "
            "brokerClientTrustCertsFilePath: a certificate of a client or of another broker that "
            "its authority's list names is refused, and so is one whose authority has no list "
            "here, or one that has ended.",
            used_with=(either(TLS_PORT, given("brokerClientTrustCertsFilePath")),),
            guard=Guard.TRUST,
        ),
    ] = None
    requires_client_certificate: Annotated[
        bool,
        Setting(
            "tlsRequireTrustedClientCertOnConnect",
            "Whether a TLS port rejects connections without a certificate that "
            "tlsTrustCertsFilePath verifies.",
            used_with=(TLS_PORT,),
        ),
    ] = False
    protocols: Annotated[
        tuple[TlsProtocol, ...],
        Setting(
            "tlsProtocols",
            "TLS versions of the TLS ports.",
            used_with=(TLS_PORT,),
        ),
    ] = tuple(TlsProtocol)
    ciphers: Annotated[
        tuple[str, ...],
        Setting(
            "tlsCiphers",
            "Ciphers of the TLS ports, the preferred one first, by the names of OpenSSL or IANA; "
            "empty: all that are not weak. Versions of TLS without a cipher here are not spoken; "
            "of TLSv1.3 either all three ciphers are named, or none.",
            used_with=(TLS_PORT,),
        ),
    ] = ()
    refresh_check_s: Annotated[
        int,
        Setting(
            "tlsCertRefreshCheckDurationSec",
            "How often the files of certificates, keys and tokens are checked for changes, which "
            "are used from then on without a restart. 0: every second. SIGHUP checks at once.",
            used_with=(RELOADED,),
        ),
    ] = 300
    peers_enabled: Annotated[
        bool,
        Setting(
            "brokerClientTlsEnabled",
            "Whether requests to other brokers go over TLS only. With "
            "brokerClientCertificateFilePath, brokers also prove their ids to each other: the "
            "certificates of each name its id as a SPIFFE ID.",
            used_with=(OWN_BROKER,),
        ),
    ] = False
    peers_trust_certs_file: Annotated[
        Path | None,
        Setting(
            "brokerClientTrustCertsFilePath",
            "CA certificates (PEM) for verifying other brokers' certificates; empty: the system's.",
            used_with=(OWN_BROKER,),
            guard=Guard.TRUST,
        ),
    ] = None
    peers_certificate_file: Annotated[
        Path | None,
        Setting(
            "brokerClientCertificateFilePath",
            "Client certificate (PEM) for requests to other brokers.",
            used_with=(OWN_BROKER,),
            guard=Guard.TRUST,
        ),
    ] = None
    peers_key_file: Annotated[
        Path | None,
        Setting(
            "brokerClientKeyFilePath",
            "Private key (PEM, not encrypted) of brokerClientCertificateFilePath.",
            used_with=(OWN_BROKER,),
            guard=Guard.SECRET,
        ),
    ] = None
