"""Combinations of settings that are refused, and settings that a daemon needs to start."""

import socket

import pytest

from broker_ctl.errors import SettingsError, StartError
from broker_ctl.settings.conditions import TLS_PROVIDER
from broker_ctl.settings.contradictions import start_refusals
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load, read
from broker_ctl.settings.startable import require_startable

T = "metadataStoreSessionTimeoutMillis"
OPEN = "allowOpenMetadataStore=true"
LISTENER = "advertisedListeners=a:pulsar://h:1"
RANGE, TOPICS = "range_equally_divide", "topic_count_equally_divide"
SUPPORTED = "supportedNamespaceBundleSplitAlgorithms"
BY_CERTIFICATE = ["authenticationEnabled=true", f"authenticationProviders={TLS_PROVIDER}"]
BETWEEN_BROKERS = [
    "brokerClientTlsEnabled=true",
    "brokerClientCertificateFilePath=c",
    "brokerClientKeyFilePath=k",
]
CERTIFIED = ["tlsCertificateFilePath=c", "tlsKeyFilePath=k"]


def by_set(*overrides: str) -> Settings:
    return load(None, {}, overrides)


def start(*overrides: str) -> None:
    require_startable(read(None, {}, overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            [f"{T}=11249"],
            (
                f"--set: {T}=11249: a lease needs at least 11250 ms, five heartbeats of a tick and "
                "250 ms; see zookeeperTickTimeMillis=2000 (default), ownershipAuthority=lease "
                "(default)"
            ),
        ),
        (
            ["webServicePort=6650"],
            (
                "default: brokerServicePort=6650: two servers cannot share one port; see "
                "webServicePort=6650 (--set)"
            ),
        ),
        (
            ["brokerServicePortTls=9", "webServicePortTls=9", *CERTIFIED],
            (
                "--set: brokerServicePortTls=9: two servers cannot share one port; see "
                "webServicePortTls=9 (--set)"
            ),
        ),
        (
            ["lookupServicePort=6650"],
            (
                "--set: lookupServicePort=6650: two servers cannot share one port; see "
                "brokerServicePort=6650 (default)"
            ),
        ),
        (
            ["lookupServicePort=9", "lookupServicePortTls=9", *CERTIFIED],
            (
                "--set: lookupServicePortTls=9: two servers cannot share one port; see "
                "lookupServicePort=9 (--set)"
            ),
        ),
        (
            ["adminServicePort=8080"],
            (
                "--set: adminServicePort=8080: two servers cannot share one port; see "
                "webServicePort=8080 (default)"
            ),
        ),
        (
            ["metricsServicePortTls=9"],
            (
                "--set: metricsServicePortTls=9: a TLS port needs a certificate and its key; see "
                "tlsCertificateFilePath= (default), tlsKeyFilePath= (default)"
            ),
        ),
        (
            ["webServicePort="],
            "--set: webServicePort: one of them must be set; see webServicePortTls= (default)",
        ),
        (
            ["webServicePortTls=9"],
            (
                "--set: webServicePortTls=9: a TLS port needs a certificate and its key; see "
                "tlsCertificateFilePath= (default), tlsKeyFilePath= (default)"
            ),
        ),
        (
            ["lookupServicePortTls=9"],
            (
                "--set: lookupServicePortTls=9: a TLS port needs a certificate and its key; see "
                "tlsCertificateFilePath= (default), tlsKeyFilePath= (default)"
            ),
        ),
        (
            ["webServicePortTls=9", "tlsKeyFilePath=k"],
            (
                "default: tlsCertificateFilePath: certificate and key need each other; see "
                "tlsKeyFilePath=k (--set)"
            ),
        ),
        (
            ["brokerClientCertificateFilePath=c"],
            (
                "--set: brokerClientCertificateFilePath=c: certificate and key need each other; "
                "see brokerClientKeyFilePath= (default)"
            ),
        ),
        (
            ["tlsRequireTrustedClientCertOnConnect=true"],
            (
                "--set: tlsRequireTrustedClientCertOnConnect=true: there is nothing to check "
                "clients' certificates against; see tlsTrustCertsFilePath= (default)"
            ),
        ),
        (["tlsProtocols=,"], "--set: tlsProtocols: names nothing"),
        (
            ["authenticationEnabled=true", "bindAddress=0.0.0.0"],
            (
                "--set: authenticationEnabled=true: no token could be verified: set a key; see "
                "tokenSecretKeyFile= (default), tokenSecretKey= (default), "
                "tokenPublicKey= (default), tokenJwksFile= (default)"
            ),
        ),
        (
            ["authenticationEnabled=true", "tokenPublicKey=/k"],
            (
                "default: authenticationProviders="
                "org.apache.pulsar.broker.authentication.AuthenticationProviderToken: "
                "brokers could not authenticate to each other: name a file of keys, or let them "
                "use certificates by brokerClientTlsEnabled; see clusterKeyFile= (default), "
                "tokenSecretKeyFile= (default), tokenSecretKey= (default)"
            ),
        ),
        (
            [*BY_CERTIFICATE, "tlsTrustCertsFilePath=c", "clusterKeyFile=k"],
            (
                f"--set: authenticationProviders={TLS_PROVIDER}: client "
                "certificates are shown at a TLS port, and verified by trusted ones; see "
                "tlsTrustCertsFilePath=c (--set), webServicePortTls= (default), "
                "lookupServicePortTls= (default)"
            ),
        ),
        (
            [
                *BY_CERTIFICATE,
                *CERTIFIED,
                "tlsTrustCertsFilePath=c",
                "webServicePortTls=8443",
            ],
            (
                f"--set: authenticationProviders={TLS_PROVIDER}: brokers could "
                "not authenticate to each other: name a file of keys, or let them use certificates "
                "by brokerClientTlsEnabled; see clusterKeyFile= (default), tokenSecretKeyFile= "
                "(default), tokenSecretKey= (default)"
            ),
        ),
        (
            [*BETWEEN_BROKERS, "tlsTrustCertsFilePath=c", "brokerClientTrustCertsFilePath=c"],
            (
                "--set: brokerClientTlsEnabled=true: brokers verify each other at the TLS port: "
                "set it, and whom they trust; see brokerClientTrustCertsFilePath=c (--set), "
                "tlsTrustCertsFilePath=c (--set), webServicePortTls= (default)"
            ),
        ),
        (
            [
                *BETWEEN_BROKERS,
                *CERTIFIED,
                "tlsTrustCertsFilePath=c",
                "brokerClientTrustCertsFilePath=c",
                "webServicePortTls=8443",
                "clusterName=Prod",
            ],
            (
                "--set: brokerClientTlsEnabled=true: clusterName 'Prod' cannot be the trust domain "
                "of a SPIFFE ID, which has only lower-case letters, digits, '.', '-' and '_'; see "
                "clusterName=Prod (--set)"
            ),
        ),
        (
            ["dataPlane=webhook", "dataPlaneSecretFile=s"],
            "--set: dataPlane=webhook: a webhook needs a URL; see dataPlaneUrl= (default)",
        ),
        (
            ["dataPlane=webhook", "dataPlaneUrl=http://h"],
            (
                "--set: dataPlane=webhook: a webhook needs a secret; see dataPlaneSecretFile= "
                "(default)"
            ),
        ),
        (
            ["dataPlane=pulsar"],
            (
                "--set: dataPlane=pulsar: the URL of the admin API is needed; see pulsarAdminUrl= "
                "(default)"
            ),
        ),
        (
            ["pulsarTlsKeyFilePath=k"],
            (
                "default: pulsarTlsCertificateFilePath: certificate and key need each other; see "
                "pulsarTlsKeyFilePath=k (--set)"
            ),
        ),
        (
            ["zookeeperTlsEnabled=true", "zookeeperTlsCertFile=c"],
            (
                "--set: zookeeperTlsCertFile=c: certificate and key need each other; see "
                "zookeeperTlsKeyFile= (default)"
            ),
        ),
        (
            ["zookeeperTlsCaFile=c"],
            (
                "--set: zookeeperTlsCaFile=c: has no effect without TLS; see "
                "zookeeperTlsEnabled=false (default)"
            ),
        ),
        (
            ["stopMode=keep"],
            "--set: stopMode=keep: the session needs a directory; see sessionDirectory= (default)",
        ),
        (
            ["internalListenerName=b", LISTENER],
            f"--set: internalListenerName=b: no listener has that name; see {LISTENER} (--set)",
        ),
        (
            ["advertisedListeners=a:pulsar://h:1,a:http://h:2,a:pulsar://g:1"],
            (
                "--set: advertisedListeners=a:pulsar://h:1,a:http://h:2,a:pulsar://g:1: "
                "a:pulsar://h:1 and a:pulsar://g:1 are of one listener and scheme"
            ),
        ),
        (
            ["lookupAdvertisedListeners=a:pulsar://h:1,b:pulsar://h:1"],
            (
                "--set: lookupAdvertisedListeners=a:pulsar://h:1,b:pulsar://h:1: a:pulsar://h:1 "
                "and b:pulsar://h:1 have one address"
            ),
        ),
        (
            ["brokerServicePort="],
            (
                "--set: brokerServicePort: clients would have no address: set one of them; "
                "see brokerServicePortTls= (default)"
            ),
        ),
        (
            ["brokerServicePort=", "brokerServicePortTls=1", "brokerId=1"],
            (
                "--set: brokerServicePort: simulated replicas are fetched from it: set it; see "
                "brokerId=1 (--set)"
            ),
        ),
        (
            ["brokerServicePort=", LISTENER, "brokerId=1"],
            (
                "--set: brokerServicePort: followers would have no port: set it; see "
                "brokerId=1 (--set)"
            ),
        ),
        (
            ["authenticationEnabled=true", "authenticationProviders=", "clusterKeyFile=c"],
            (
                "--set: authenticationProviders: names nothing: nobody could authenticate; see "
                "authenticationEnabled=true (--set)"
            ),
        ),
        (
            [f"{SUPPORTED}={TOPICS}"],
            (
                f"default: defaultNamespaceBundleSplitAlgorithm={RANGE}: the default must be "
                f"supported; see {SUPPORTED}={TOPICS} (--set)"
            ),
        ),
        (
            ["loadBalancerReportUpdateMaxIntervalMinutes=0.01"],
            (
                "default: loadBalancerReportUpdateMinIntervalMillis=5000: the least interval is "
                "above the greatest; see loadBalancerReportUpdateMaxIntervalMinutes=0.01 (--set)"
            ),
        ),
        (
            ["zookeeperJuteMaxBufferBytes=100000"],
            (
                "default: metadataStoreBatchingMaxSizeKb=128: a server would refuse such a batch; "
                "see zookeeperJuteMaxBufferBytes=100000 (--set)"
            ),
        ),
        (
            ["dataPlaneFailureTimeoutMillis=4999"],
            (
                "default: dataPlaneRequestTimeoutMillis=5000: one slow request would count as a "
                "failure; see dataPlaneFailureTimeoutMillis=4999 (--set)"
            ),
        ),
    ],
)
def test_a_contradiction_names_all_settings_that_take_part(
    overrides: list[str], message: str
) -> None:
    with pytest.raises(SettingsError) as refusal:
        by_set(*overrides)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    "overrides",
    [
        [f"{T}=11250"],
        [f"{T}=3750", "zookeeperTickTimeMillis=500"],
        [f"{T}=4000", "ownershipAuthority=storage"],
        [f"{T}=4000", "ownershipAuthority=pulsar56"],
        ["authenticationEnabled=true", "tokenSecretKeyFile=s"],
        ["authenticationEnabled=true", "tokenSecretKey=/k"],
        # It draws a token for local commands.
        ["authenticationEnabled=true", "clusterKeyFile=c"],
        ["authenticationEnabled=true", "tokenPublicKey=/k", "clusterKeyFile=c"],
        [
            *("authenticationEnabled=true", "tokenPublicKey=/k"),
            *("dataPlane=pulsar", "pulsarAdminUrl=http://h"),
        ],
        ["dataPlane=webhook", "dataPlaneUrl=http://h", "dataPlaneSecretFile=s"],
        ["stopMode=keep", "sessionDirectory=d"],
        ["internalListenerName=a", LISTENER],
        ["brokerServicePort=", LISTENER],
        ["brokerServicePort=", "brokerServicePortTls=9"],
        ["authenticationProviders="],
        ["zookeeperTlsEnabled=true", "zookeeperTlsCertFile=c", "zookeeperTlsKeyFile=k"],
        [f"{SUPPORTED}={TOPICS}", f"defaultNamespaceBundleSplitAlgorithm={TOPICS}"],
        ["webServicePort=", "webServicePortTls=9", *CERTIFIED],
        ["lookupServicePort=8", "lookupServicePortTls=9", *CERTIFIED],
        ["tlsRequireTrustedClientCertOnConnect=true", "tlsTrustCertsFilePath=a"],
        # One file for the daemon and the broker process beside it, which has the TLS port.
        ["brokerServicePortTls=9", *CERTIFIED],
    ],
)
def test_settings_that_agree_are_accepted(overrides: list[str]) -> None:
    by_set(*overrides)


def test_contradictions_are_not_looked_for_among_bad_values() -> None:
    with pytest.raises(SettingsError) as refusal:
        by_set("stopMode=keep", "logLevel=loud")
    assert "keep" not in str(refusal.value)


def test_a_daemon_needs_a_store() -> None:
    with pytest.raises(StartError, match=r"^default: metadataStoreUrl: not set"):
        start()
    start("metadataStoreUrl=localhost")


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.7", "broker-1"])
def test_a_listener_off_loopback_wants_authentication(bind: str) -> None:
    store, address = "metadataStoreUrl=localhost", f"bindAddress={bind}"
    with pytest.raises(StartError, match="anybody could command this broker"):
        start(store, address)
    start(store, address, "allowInsecureListener=true")
    authenticated = ("authenticationEnabled=true", "tokenSecretKeyFile=secret")
    start(store, address, *authenticated, "webServicePort=", "webServicePortTls=9", *CERTIFIED)
    start(store, address, *authenticated, "allowCleartextCredentials=true")


def test_an_admin_port_off_loopback_wants_authentication_and_tls() -> None:
    store, port = "metadataStoreUrl=localhost", "adminServicePort=8082"
    tls_public = ("webServicePort=", "webServicePortTls=9", *CERTIFIED)
    start(store, port)
    start(store, "adminBindAddress=10.0.0.7")
    with pytest.raises(StartError, match=r"adminBindAddress=10\.0\.0\.7: anybody could command"):
        start(store, port, "adminBindAddress=10.0.0.7")
    authenticated = ("authenticationEnabled=true", "tokenSecretKeyFile=secret")
    with pytest.raises(StartError, match="adminServicePort=8082: tokens would cross the network"):
        start(store, port, "adminBindAddress=10.0.0.7", *authenticated)
    with pytest.raises(StartError, match="adminServicePort=8082: tokens would cross the network"):
        start(store, port, "bindAddress=10.0.0.7", *tls_public, *authenticated)
    tls = ("adminServicePortTls=8083", *CERTIFIED)
    start(store, "adminBindAddress=10.0.0.7", *tls, *authenticated)
    start(store, port, "bindAddress=10.0.0.7", "adminBindAddress=::1", *tls_public, *authenticated)


def test_tokens_for_metrics_do_not_cross_a_network_in_the_clear() -> None:
    fixed = ("metadataStoreUrl=localhost", "metricsServicePort=9", "metricsBindAddress=10.0.0.7")
    authenticated = ("authenticationEnabled=true", "tokenSecretKeyFile=secret")
    start(*fixed)
    start(*fixed, *authenticated)
    with pytest.raises(StartError, match="metricsServicePort=9: tokens would cross the network"):
        start(*fixed, *authenticated, "authenticateMetricsEndpoint=true")


def test_brokers_that_verify_each_other_need_tls_at_the_admin_port() -> None:
    verifying = (
        "brokerClientTlsEnabled=true",
        "brokerClientCertificateFilePath=c",
        "brokerClientKeyFilePath=k",
        "brokerClientTrustCertsFilePath=a",
        "tlsTrustCertsFilePath=a",
        "webServicePortTls=9",
        *CERTIFIED,
    )
    by_set(*verifying, "adminServicePort=8082", "adminServicePortTls=8083")
    with pytest.raises(SettingsError, match="adminServicePort=8082: brokers verify each other"):
        by_set(*verifying, "adminServicePort=8082")


def test_all_reasons_not_to_start_are_reported_at_once() -> None:
    with pytest.raises(StartError) as refusal:
        start("bindAddress=0.0.0.0")
    assert len(str(refusal.value).splitlines()) == 2


STARTABLE = ("metadataStoreUrl=zk:127.0.0.1:2181", "bindAddress=127.0.0.1")


@pytest.mark.parametrize(
    "name",
    [
        "ModularLoadManagerImpl",
        "org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl",
        "org.apache.pulsar.broker.loadbalance.NoopLoadManager",
    ],
)
def test_a_load_manager_is_named_by_its_class_with_or_without_the_package(name: str) -> None:
    settings = by_set(f"loadManagerClassName={name}", *STARTABLE)
    start(f"loadManagerClassName={name}", *STARTABLE)
    assert settings.balancing.load_manager == name.rpartition(".")[2]


def test_an_unknown_load_manager_is_refused_with_those_that_are_known() -> None:
    # Pulsar 2.9 silently falls back to the Simple one.
    with pytest.raises(SettingsError) as refused:
        by_set("loadManagerClassName=org.acme.BestLoadManager", *STARTABLE)
    for name in ("ModularLoadManagerImpl", "SimpleLoadManagerImpl", "NoopLoadManager"):
        assert name in str(refused.value)


def test_the_extensible_load_manager_is_known_and_does_not_start() -> None:
    name = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    with pytest.raises(StartError, match=r"loadManagerClassName=.*system topics.*Modular"):
        start(f"loadManagerClassName={name}", *STARTABLE)


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [
        ("localhost", True),
        ("localhost.localdomain", True),
        ("127.0.1.1", True),
        ("a b", True),
        ("vm", False),
    ],
)
def test_a_host_name_that_leads_others_nowhere_is_not_published(
    host: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    off_loopback = by_set("bindAddress=0.0.0.0", "allowInsecureListener=true", OPEN)
    refused = [one.keys[0] for one in start_refusals(off_loopback)]
    assert ("advertisedAddress" in refused) is is_refused
    for other in ("bindAddress=127.0.0.1", "advertisedAddress=b"):
        settings = by_set("bindAddress=0.0.0.0", "allowInsecureListener=true", OPEN, other)
        assert "advertisedAddress" not in [one.keys[0] for one in start_refusals(settings)]
