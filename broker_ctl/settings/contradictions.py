"""Combinations of settings that are not allowed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS
from broker_ctl.errors import InvalidName
from broker_ctl.security.certificates.peer_certificate import broker_uri
from broker_ctl.settings.addresses import StateKind, is_loopback
from broker_ctl.settings.cleartext import CLEARTEXT_TO_STORE, CLEARTEXT_WAYS, CleartextWay
from broker_ctl.settings.conditions import (
    ADMIN_PORT,
    AUTHENTICATED,
    BROKER_CERTIFICATES,
    BY_ADMIN_API,
    CERTIFICATES,
    CLUSTER_KEYS,
    IDENTITIES,
    LOOPBACK_TOKEN,
    OPEN_STORE,
    OPENID,
    OWN_BROKER,
    REPLICATION_TLS,
    SIMULATED_REPLICAS,
    TOKEN_KEYS,
    TOKEN_SECRETS,
    TOKENS,
    UNGUARDED,
    all_of,
    either,
)
from broker_ctl.settings.publishing import addresses_can_be_published, others_reach_this_machine
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import Problem
from broker_ctl.settings.subjects.dataplane import DataPlaneKind
from broker_ctl.settings.subjects.security import SignatureMode
from broker_ctl.settings.subjects.session import OwnershipAuthority, StopMode

# Lease mode: a heartbeat period is at least a tick plus this, and the timeout must hold five of
# them (docs: zookeeper-session-rules).
_HEARTBEAT_MARGIN_MS: Final = 250
_HEARTBEATS_PER_TIMEOUT: Final = 5
_PORTS: Final = (
    "webServicePort",
    "webServicePortTls",
    "brokerServicePort",
    "brokerServicePortTls",
    "lookupServicePort",
    "lookupServicePortTls",
    "adminServicePort",
    "adminServicePortTls",
    "metricsServicePort",
    "metricsServicePortTls",
)
# Ports at which clients show certificates, and all that the daemon itself serves over TLS.
_CLIENT_TLS_PORTS: Final = ("webServicePortTls", "lookupServicePortTls")
_TLS_PORTS: Final = (*_CLIENT_TLS_PORTS, "adminServicePortTls", "metricsServicePortTls")
_PEERS_PROVEN: Final = either(CLUSTER_KEYS, BROKER_CERTIFICATES)
_CERTIFICATES: Final = (
    ("zookeeperTlsCertFile", "zookeeperTlsKeyFile"),
    ("tlsCertificateFilePath", "tlsKeyFilePath"),
    ("brokerClientCertificateFilePath", "brokerClientKeyFilePath"),
    ("pulsarTlsCertificateFilePath", "pulsarTlsKeyFilePath"),
)


_JWT_KEYS: Final = ("tokenSecretKey", "tokenPublicKey", "tokenJwksFile")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Settings that contradict each other; the problem is reported for the first key."""

    keys: tuple[str, ...]
    message: str

    def problem(self, settings: Settings) -> Problem:
        """The problem, with the settings' values and origins."""
        key, *others = self.keys
        message = self.message
        if others:
            values = (
                f"{other}={settings.text(other)} ({settings.origin(other)})" for other in others
            )
            message += "; see " + ", ".join(values)
        return Problem(settings.origin(key), key, settings.text(key), message)


def contradictions(settings: Settings) -> Iterator[Contradiction]:
    """Contradictions that prevent any use of the settings."""
    for rule in _RULES:
        yield from rule(settings)


def lacks_store(settings: Settings) -> bool:
    """Whether a daemon would have no metadata store, and needs one."""
    return settings.metadata.store_url is None and not BY_ADMIN_API.holds(settings)


def start_refusals(settings: Settings) -> Iterator[Contradiction]:
    """Contradictions that prevent the start of a daemon, but not the use of other tools."""
    if lacks_store(settings):
        yield Contradiction(("metadataStoreUrl",), "not set: the daemon needs a metadata store")
    state = settings.pulsar.state_url
    is_forgotten = state is not None and state.kind is StateKind.MEMORY
    if BY_ADMIN_API.holds(settings) and settings.pulsar.acts and is_forgotten:
        yield Contradiction(
            ("pulsarStateUrl", "pulsarAct"),
            "two such processes could act against each other, and a restart would forget pauses "
            "and drains: keep the state in file: or kubernetes:",
        )
    load_manager = LOAD_MANAGERS.find(settings.balancing.load_manager)
    if load_manager.refusal:
        yield Contradiction(("loadManagerClassName",), load_manager.refusal)
    if UNGUARDED.holds(settings) and not settings.security.allow_insecure_listener:
        is_shared = not is_loopback(settings.broker.bind_address)
        key = "bindAddress" if is_shared else "adminBindAddress"
        yield Contradiction(
            (key, "authenticationEnabled", "allowInsecureListener"),
            "anybody could command this broker: listen on loopback, switch authentication on, or "
            "allow it",
        )
    if (
        SIMULATED_REPLICAS.holds(settings)
        and not settings.dataplane.simulated_replication_tls_enabled
        and not is_loopback(settings.broker.bind_address)
    ):
        yield Contradiction(
            ("simulatedReplicationTlsEnabled", "bindAddress", "brokerId"),
            "anybody could read and write the replicas at brokerServicePort: set it to true, or "
            "listen on loopback",
        )
    if OPEN_STORE.holds(settings) and not settings.security.allow_open_metadata_store:
        yield Contradiction(
            ("metadataStoreUrl", *IDENTITIES, "zookeeperSetAcl", "allowOpenMetadataStore"),
            "everybody who reaches ZooKeeper could control this cluster: set an identity, or allow "
            "it",
        )
    for keys, message in others_reach_this_machine(settings):
        yield Contradiction(keys, message)
    yield from _roles_exist(settings)
    yield from _cleartext(settings, CLEARTEXT_WAYS)


def store_refusals(settings: Settings) -> Iterator[Contradiction]:
    """Contradictions that prevent any command from connecting to ZooKeeper."""
    yield from _cleartext(settings, CLEARTEXT_TO_STORE)


def _cleartext(settings: Settings, ways: Sequence[CleartextWay]) -> Iterator[Contradiction]:
    if settings.security.allow_cleartext_credentials:
        return
    for way in ways:
        if way.condition.holds(settings):
            yield Contradiction((*way.keys, "allowCleartextCredentials"), way.message)


def _clients_can_authenticate(settings: Settings) -> Iterator[Contradiction]:
    if AUTHENTICATED.holds(settings) and not settings.security.authentication_providers:
        yield Contradiction(
            ("authenticationProviders", "authenticationEnabled"),
            "names nothing: nobody could authenticate",
        )


def _roles_exist(settings: Settings) -> Iterator[Contradiction]:
    if settings.security.authentication_enabled:
        return
    for key in ("authorizationEnabled", "dualAuthorizationEnabled"):
        if settings.value(key):
            yield Contradiction(
                (key, "authenticationEnabled"),
                "nobody has a role without authentication: switch both on, or both off",
            )


def _lease_fits(settings: Settings) -> Iterator[Contradiction]:
    tick_ms = settings.zookeeper.tick_time_ms
    least_ms = _HEARTBEATS_PER_TIMEOUT * (tick_ms + _HEARTBEAT_MARGIN_MS)
    is_leased = settings.session.ownership_authority is OwnershipAuthority.LEASE
    if is_leased and settings.metadata.session_timeout_ms < least_ms:
        yield Contradiction(
            ("metadataStoreSessionTimeoutMillis", "zookeeperTickTimeMillis", "ownershipAuthority"),
            f"a lease needs at least {least_ms} ms, five heartbeats of a tick and "
            f"{_HEARTBEAT_MARGIN_MS} ms",
        )


def _ports_differ(settings: Settings) -> Iterator[Contradiction]:
    for one, other in combinations(_PORTS, 2):
        port = settings.value(one)
        if port is not None and port == settings.value(other):
            yield Contradiction((other, one), "two servers cannot share one port")


def _a_web_port_is_there(settings: Settings) -> Iterator[Contradiction]:
    broker = settings.broker
    if broker.web_service_port is None and broker.web_service_port_tls is None:
        yield Contradiction(("webServicePort", "webServicePortTls"), "one of them must be set")


def _certificates_have_keys(settings: Settings) -> Iterator[Contradiction]:
    for pair in _CERTIFICATES:
        certificate, key = (settings.value(name) for name in pair)
        if (certificate is None) != (key is None):
            yield Contradiction(pair, "certificate and key need each other")


def _tls_ports_have_a_certificate(settings: Settings) -> Iterator[Contradiction]:
    tls = settings.tls
    if tls.certificate_file is None and tls.key_file is None:
        for port in _TLS_PORTS:
            if settings.value(port) is not None:
                yield Contradiction(
                    (port, "tlsCertificateFilePath", "tlsKeyFilePath"),
                    "a TLS port needs a certificate and its key",
                )
    given = (tls.certificate_file, tls.key_file, tls.trust_certs_file)
    if REPLICATION_TLS.holds(settings) and None in given:
        yield Contradiction(
            (
                "simulatedReplicationTlsEnabled",
                "tlsCertificateFilePath",
                "tlsKeyFilePath",
                "tlsTrustCertsFilePath",
            ),
            "brokers prove their numbers with certificates: set all three files",
        )
    if tls.requires_client_certificate and tls.trust_certs_file is None:
        yield Contradiction(
            ("tlsRequireTrustedClientCertOnConnect", "tlsTrustCertsFilePath"),
            "there is nothing to check clients' certificates against",
        )
    if not tls.protocols:
        yield Contradiction(("tlsProtocols",), "names nothing")


def _certificates_can_be_shown(settings: Settings) -> Iterator[Contradiction]:
    if not CERTIFICATES.holds(settings):
        return
    keys = ("authenticationProviders", "tlsTrustCertsFilePath", *_CLIENT_TLS_PORTS)
    has_port = any(settings.value(port) is not None for port in _CLIENT_TLS_PORTS)
    if settings.tls.trust_certs_file is None or not has_port:
        yield Contradiction(
            keys, "client certificates are shown at a TLS port, and verified by trusted ones"
        )


def _brokers_can_prove_their_ids(settings: Settings) -> Iterator[Contradiction]:
    if not BROKER_CERTIFICATES.holds(settings):
        return
    needed = ("brokerClientTrustCertsFilePath", "tlsTrustCertsFilePath", "webServicePortTls")
    if any(settings.value(key) is None for key in needed):
        yield Contradiction(
            ("brokerClientTlsEnabled", *needed),
            "brokers verify each other at the TLS port: set it, and whom they trust",
        )
    if ADMIN_PORT.holds(settings) and settings.http_ports.admin_port_tls is None:
        yield Contradiction(
            ("adminServicePort", "brokerClientTlsEnabled", "adminServicePortTls"),
            "brokers verify each other at the TLS port: set it",
        )
    try:
        broker_uri(settings.broker.cluster_name, settings.broker.broker_id)
    except InvalidName as error:
        yield Contradiction(("brokerClientTlsEnabled", "clusterName"), str(error))


def _secrets_are_there(settings: Settings) -> Iterator[Contradiction]:
    for one, other in combinations(_JWT_KEYS, 2):
        if settings.value(one) is not None and settings.value(other) is not None:
            yield Contradiction((one, other), "tokens are verified by one of these keys alone")
    if OPENID.holds(settings) and not (settings.openid.issuers and settings.openid.audiences):
        yield Contradiction(
            ("authenticationProviders", "openIDAllowedTokenIssuers", "openIDAllowedAudiences"),
            "tokens need an issuer and an audience: set both",
        )
    has_key = any(settings.value(key) is not None for key in TOKEN_KEYS)
    if TOKENS.holds(settings) and not has_key and not LOOPBACK_TOKEN.holds(settings):
        yield Contradiction(
            ("authenticationEnabled", *TOKEN_KEYS), "no token could be verified: set a key"
        )
    elif all_of(AUTHENTICATED, OWN_BROKER).holds(settings) and not _PEERS_PROVEN.holds(settings):
        yield Contradiction(
            ("authenticationProviders", "clusterKeyFile", *TOKEN_SECRETS),
            "brokers could not authenticate to each other: name a file of keys, or let them use "
            "certificates by brokerClientTlsEnabled",
        )
    is_required = settings.security.znode_signatures is SignatureMode.REQUIRE
    if is_required and not CLUSTER_KEYS.holds(settings):
        yield Contradiction(
            ("znodeSignatures", "clusterKeyFile", "authenticationEnabled"),
            "a signature needs a key: name a file of keys, or switch authentication on",
        )
    if settings.dataplane.kind is DataPlaneKind.WEBHOOK:
        if settings.dataplane.url is None:
            yield Contradiction(("dataPlane", "dataPlaneUrl"), "a webhook needs a URL")
        if settings.dataplane.secret_file is None:
            yield Contradiction(("dataPlane", "dataPlaneSecretFile"), "a webhook needs a secret")


def _the_cluster_can_be_called(settings: Settings) -> Iterator[Contradiction]:
    if settings.dataplane.kind is DataPlaneKind.PULSAR and not settings.pulsar.admin_urls:
        yield Contradiction(("dataPlane", "pulsarAdminUrl"), "the URL of the admin API is needed")


def _zookeeper_tls_is_used(settings: Settings) -> Iterator[Contradiction]:
    names = ("zookeeperTlsCaFile", "zookeeperTlsCertFile", "zookeeperTlsKeyFile")
    given = [name for name in names if settings.value(name) is not None]
    if given and not settings.zookeeper.tls_enabled:
        yield Contradiction((given[0], "zookeeperTlsEnabled"), "has no effect without TLS")


def _kept_session_has_a_place(settings: Settings) -> Iterator[Contradiction]:
    session = settings.session
    if session.stop_mode is StopMode.KEEP and session.session_directory is None:
        yield Contradiction(("stopMode", "sessionDirectory"), "the session needs a directory")


def _addresses_can_be_published(settings: Settings) -> Iterator[Contradiction]:
    for keys, message in addresses_can_be_published(settings):
        yield Contradiction(keys, message)


def _default_algorithm_is_supported(settings: Settings) -> Iterator[Contradiction]:
    splitting = settings.splitting
    if splitting.default_algorithm not in splitting.supported_algorithms:
        yield Contradiction(
            ("defaultNamespaceBundleSplitAlgorithm", "supportedNamespaceBundleSplitAlgorithms"),
            "the default must be supported",
        )


def _bounds_are_in_order(settings: Settings) -> Iterator[Contradiction]:
    report, dataplane = settings.load_report, settings.dataplane
    if report.min_interval_s > report.max_interval_s:
        yield Contradiction(
            (
                "loadBalancerReportUpdateMinIntervalMillis",
                "loadBalancerReportUpdateMaxIntervalMinutes",
            ),
            "the least interval is above the greatest",
        )
    if settings.metadata.batching_max_size_bytes > settings.zookeeper.jute_max_buffer_bytes:
        yield Contradiction(
            ("metadataStoreBatchingMaxSizeKb", "zookeeperJuteMaxBufferBytes"),
            "a server would refuse such a batch",
        )
    if dataplane.request_timeout_ms > dataplane.failure_timeout_ms:
        yield Contradiction(
            ("dataPlaneRequestTimeoutMillis", "dataPlaneFailureTimeoutMillis"),
            "one slow request would count as a failure",
        )
    if settings.planner.low_percent >= settings.planner.high_percent:
        yield Contradiction(
            ("loadBalancerPlannerLowPercentage", "loadBalancerPlannerHighPercentage"),
            "a broker that was relieved would be too full again",
        )


_RULES: Final[tuple[Callable[[Settings], Iterator[Contradiction]], ...]] = (
    _lease_fits,
    _ports_differ,
    _a_web_port_is_there,
    _clients_can_authenticate,
    _secrets_are_there,
    _the_cluster_can_be_called,
    _certificates_have_keys,
    _certificates_can_be_shown,
    _brokers_can_prove_their_ids,
    _tls_ports_have_a_certificate,
    _zookeeper_tls_is_used,
    _kept_session_has_a_place,
    _addresses_can_be_published,
    _default_algorithm_is_supported,
    _bounds_are_in_order,
)
