"""Sources, their order, and what is wrong with them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import Reading, load, read
from broker_ctl.settings.subjects.tls import TlsProtocol

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        file = tmp_path / "broker.conf"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def by_set(*overrides: str) -> Settings:
    return load(None, {}, overrides)


def complaint(
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> str:
    with pytest.raises(SettingsError) as refusal:
        load(file, environment or {}, overrides)
    return str(refusal.value)


def test_without_any_source_the_defaults_hold() -> None:
    assert by_set() == Settings()
    assert by_set().origin("clusterName") == "default"


def test_a_later_source_wins_and_each_value_knows_where_it_comes_from(write: Write) -> None:
    file = write("clusterName=f\nwebServicePort=1001\nbrokerServicePort=2001\nlogLevel=error\n")
    environment = {
        "BROKER_CTL_webServicePort": " 1002 ",
        "BROKER_CTL_brokerServicePort": "2002",
        "webServicePort": "9",
    }
    settings = load(file, environment, ["brokerServicePort=2003", "brokerServicePort = 2004"])
    assert settings.broker.cluster_name == "f"
    assert settings.broker.web_service_port == 1002
    assert settings.broker.broker_service_port == 2004
    assert settings.origin("clusterName") == f"{file}:1"
    assert settings.origin("webServicePort") == "environment"
    assert settings.origin("brokerServicePort") == "--set"
    assert settings.origin("bindAddress") == "default"


def test_an_empty_value_asks_for_the_default(write: Write) -> None:
    file = write("clusterName=\nlogLevel=error\nloadHistoryDirectory=/var/lib/history\n")
    settings = load(file, {"BROKER_CTL_logLevel": ""}, ["loadHistoryDirectory="])
    assert settings == Settings()
    assert settings.origin("logLevel") == "default"


def test_an_empty_web_port_asks_for_none_as_pulsars_does(write: Write) -> None:
    tls = "webServicePortTls=8443\ntlsCertificateFilePath=c\ntlsKeyFilePath=k\n"
    file = write(f"webServicePort=\n{tls}")
    settings = load(file, {}, [])
    assert settings.broker.web_service_port is None
    assert settings.origin("webServicePort") == f"{file}:1"
    assert load(file, {"BROKER_CTL_webServicePort": "81"}, []).broker.web_service_port == 81


def test_all_problems_of_all_sources_are_reported_at_once_in_order(write: Write) -> None:
    file = write("webServicePort=http\nno equals\nloadBalancerEnabled=maybe\n")
    message = complaint(["dataPlane=real", "oops"], {"BROKER_CTL_logFormat": "xml"}, file)
    assert message.splitlines() == [
        f"{file}:1: webServicePort=http: allowed: an integer from 1 to 65535",
        f"{file}:2: there is no '=' in the line",
        f"{file}:3: loadBalancerEnabled=maybe: allowed: true or false",
        "environment: logFormat=xml: allowed: text or json",
        "--set: oops: key=value is expected",
        "--set: dataPlane=real: allowed: simulated, webhook or pulsar",
    ]


def test_a_bad_value_is_reported_even_where_a_later_source_hides_it(write: Write) -> None:
    message = complaint(["webServicePort=1"], file=write("webServicePort=x\n"))
    assert "webServicePort=x" in message


@pytest.mark.parametrize(
    ("override", "allowed"),
    [
        ("metadataStoreCacheExpirySeconds=1.5", "allowed: an integer of at least 1"),
        ("metadataStoreCacheExpirySeconds=0", "allowed: an integer of at least 1"),
        ("metadataStoreCacheExpirySeconds=1_0", "allowed: an integer of at least 1"),
        (
            "metadataStoreCacheExpirySeconds=3000000000",
            "above 2147483647; allowed: an integer of at least 1",
        ),
        ("zookeeperSessionReconnectMaxRetries=-2", "allowed: an integer of at least -1"),
        ("loadBalancerSheddingIntervalMinutes=0", "allowed: a number of at least 0.001"),
        ("loadBalancerSheddingIntervalMinutes=nan", "allowed: a number of at least 0.001"),
        ("loadBalancerSheddingIntervalMinutes=1e999", "allowed: a number of at least 0.001"),
        ("loadBalancerOverrideBrokerNicSpeedGbps=0", "allowed: a number above 0"),
        (
            "loadBalancerHistoryResourcePercentage=1",
            "allowed: a number of at least 0 and below 1",
        ),
        (
            "tlsProtocols=TLSv1.1",
            "allowed: a comma-separated list; each TLSv1.2 or TLSv1.3",
        ),
        ("clusterName=a/b", "allowed: letters, digits and -=:._"),
        ("bindAddress=a b", "'a b' is not a host; allowed: a host name or an IP address"),
        (
            "clusterName=\x07",
            "unprintable characters; allowed: letters, digits and -=:._",
        ),
        (
            "loadBalancerLoadSheddingStrategy=Fastest",
            (
                "allowed: a comma-separated list; each balance, OverloadShedder, ThresholdShedder, "
                "UniformLoadShedder, AvgShedder, TransferShedder or an entry point of "
                "broker_ctl.shedding"
            ),
        ),
        (
            "metadataStoreUrl=zk:/a",
            "no host; allowed: zk:host:2181,host2:2181/chroot",
        ),
        (
            "loadBalancerSheddingExcludedNamespaces=a/b,c",
            (
                "'c': a namespace is tenant/name; allowed: a comma-separated list; "
                "each tenant/namespace"
            ),
        ),
        (
            "loadBalancerOverrideBrokerNics=eth0,e th1",
            "allowed: a comma-separated list; each the name of an interface",
        ),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(override: str, allowed: str) -> None:
    assert complaint([override]) == f"--set: {override}: {allowed}"


def test_a_password_inside_a_url_is_not_repeated() -> None:
    message = complaint(["dataPlaneUrl=http://user:hunter2@localhost:9000"])
    assert "hunter2" not in message
    assert "http://***@localhost:9000" in message


def test_values_are_read_by_their_type() -> None:
    settings = by_set(
        "loadBalancerEnabled=FALSE",
        "loadBalancerSheddingIntervalMinutes=0.1",
        "superUserRoles= admin , ops ,",
        "logLevel=WARNING",
        "loadBalancerOverrideBrokerNicSpeedGbps=2.5",
        "webServicePort=",
        "webServicePortTls=8443",
        "tlsCertificateFilePath=/etc/c.pem",
        "tlsKeyFilePath=/etc/k.pem",
        "tlsProtocols=tlsv1.3",
        "loadHistoryDirectory=/var/lib/broker-ctl/history",
        "loadBalancerLoadSheddingStrategy="
        "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder",
        "loadBalancerSheddingExcludedNamespaces=a/b,c/d",
    )
    assert settings.balancing.enabled is False
    assert settings.shedding.interval_s == pytest.approx(6)
    assert settings.security.super_user_roles == ("admin", "ops")
    assert settings.log.level == "warning"
    assert settings.load_report.nic_speed_gbps == 2.5
    assert settings.broker.web_service_port is None
    assert settings.broker.web_service_port_tls == 8443
    assert settings.tls.certificate_file == Path("/etc/c.pem")
    assert settings.tls.protocols == (TlsProtocol.TLS_1_3,)
    assert settings.history.directory == Path("/var/lib/broker-ctl/history")
    assert settings.shedding.strategies == ("ThresholdShedder",)
    assert [str(namespace) for namespace in settings.shedding.excluded_namespaces] == ["a/b", "c/d"]


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "none.conf"
    assert complaint(file=file) == f"{file}: cannot be read: No such file or directory"
    assert complaint(file=tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    file.write_bytes(b"clusterName=d\xe4mon\n")
    assert complaint(file=file) == f"{file}: not UTF-8 at byte 13"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("metadatastoreurl", "metadataStoreUrl"),
        ("metadataStoreSessionTimeoutMs", "metadataStoreSessionTimeoutMillis"),
        ("loadBalancerSheddingEnable", "loadBalancerSheddingEnabled"),
        ("loadBalancerBandwidthInResourceWieght", "loadBalancerBandwidthInResourceWeight"),
        ("zookeeperServer", "zookeeperServers"),
        ("dryrun", "dryRun"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_key_that_is_meant(key: str, meant: str) -> None:
    assert complaint([f"{key}=secret"]) == f"--set: {key}: unknown key; {meant} is meant"


def test_pulsars_other_keys_are_accepted_and_strange_ones_listed() -> None:
    reading = read(None, {"BROKER_CTL_NOISE": "1"}, ["tlsEnabled=true", "bookkeeper_x=1", "foo=2"])
    assert reading.problems == ()
    assert [entry.key for entry in reading.unused] == ["tlsEnabled", "bookkeeper_x"]
    assert [entry.key for entry in reading.unknown] == ["NOISE", "foo"]
    assert reading.settings == Settings()


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["zookeeperServers=a:1"], "zk:a:1"),
        (["zookeeperServers=a:1", "metadataStoreUrl=zk:b:2"], "zk:b:2"),
        (["zookeeperServers=", "metadataStoreUrl=zk:b:2"], "zk:b:2"),
    ],
)
def test_zookeeper_servers_stand_in_for_the_store_url(overrides: list[str], expected: str) -> None:
    assert str(by_set(*overrides).metadata.store_url) == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], "zk:m:2181"),
        (["globalZookeeperServers=a"], "zk:a:2181"),
        (["globalZookeeperServers=a", "configurationStoreServers=b"], "zk:b:2181"),
        (["configurationStoreServers=b", "configurationMetadataStoreUrl=zk:c"], "zk:c:2181"),
    ],
)
def test_the_newest_spelling_of_the_configuration_store_wins(
    overrides: list[str], expected: str
) -> None:
    settings = by_set("metadataStoreUrl=m", *overrides)
    assert settings.metadata.configuration_url == StoreUrl.parse(expected)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (
            "zooKeeperSessionTimeoutMillis",
            "metadataStoreSessionTimeoutMillis",
            "session_timeout_ms",
        ),
        (
            "zooKeeperOperationTimeoutSeconds",
            "metadataStoreOperationTimeoutSeconds",
            "operation_timeout_s",
        ),
        ("zooKeeperCacheExpirySeconds", "metadataStoreCacheExpirySeconds", "cache_expiry_s"),
    ],
)
def test_an_old_timeout_wins_when_it_is_positive(old: str, new: str, field: str) -> None:
    def value(*overrides: str) -> int:
        found: int = getattr(by_set(*overrides).metadata, field)
        return found

    assert value(f"{old}=20000", f"{new}=40000") == 20_000
    assert value(f"{old}=-1", f"{new}=40000") == 40_000
    assert value(f"{old}=20000") == 20_000
    assert f"--set: {old}=soon: allowed: an integer" in complaint([f"{old}=soon"])


def test_a_misspelt_weight_counts_when_only_it_was_changed() -> None:
    old, new = "loadBalancerBandwithInResourceWeight", "loadBalancerBandwidthInResourceWeight"

    def weight(*overrides: str) -> float:
        return by_set(*overrides).load_report.bandwidth_in_weight

    assert weight(f"{old}=0.5") == 0.5
    assert weight(f"{old}=0.5", f"{new}=1.0") == 0.5
    assert weight(f"{old}=0.5", f"{new}=0.7") == 0.7
    assert weight(f"{old}=1.0", f"{new}=0.7") == 0.7
    settings = by_set("loadBalancerBandwithOutResourceWeight=0.2")
    assert settings.load_report.bandwidth_out_weight == 0.2


def test_a_new_spelling_in_a_later_source_beats_an_old_one_in_the_file(write: Write) -> None:
    file = write("zooKeeperSessionTimeoutMillis=20000\nzookeeperServers=a\n")
    settings = load(
        file,
        {"BROKER_CTL_metadataStoreSessionTimeoutMillis": "40000"},
        ["metadataStoreUrl=zk:b"],
    )
    assert settings.metadata.session_timeout_ms == 40_000
    assert str(settings.metadata.store_url) == "zk:b:2181"


PULSAR_STYLE = """
### --- General broker settings --- ###

# Where ZooKeeper is
metadataStoreUrl=zk:zk-1:2181,zk-2:2181,zk-3:2181/pulsar
configurationMetadataStoreUrl=
metadataStoreConfigPath=
brokerServicePort=6650
brokerServicePortTls=
webServicePort=8080
webServicePortTls=
bindAddress=0.0.0.0
bindAddresses=
advertisedAddress=
# advertisedListeners=
numIOThreads=
isRunningStandalone=
clusterName=pulsar-cluster
metadataStoreSessionTimeoutMillis=30000
backlogQuotaDefaultRetentionPolicy=producer_request_hold
subscriptionTypesEnabled=Exclusive,Shared,Failover,Key_Shared
defaultNumberOfNamespaceBundles=4
maxUnackedMessagesPerSubscriptionOnBrokerBlocked=0.16
maxConcurrentLookupRequest=50000
zookeeperSessionExpiredPolicy=reconnect
tlsCertificateFilePath=
tlsKeyStorePassword=
authenticationEnabled=false
authorizationProvider=org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider
superUserRoles=
saslJaasClientAllowedIds=.*pulsar.*
httpMaxRequestHeaderSize = 8192
maxConcurrentHttpRequests=1024
bookkeeperUseV2WireProtocol=true
bookkeeper_tlsHostnameVerificationEnabled=false
managedLedgerDefaultEnsembleSize=2

### --- Load balancer --- ###
loadBalancerEnabled=true
loadBalancerNamespaceBundleMaxSessions=1000
loadBalancerOverrideBrokerNicSpeedGbps=
loadManagerClassName=org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl
supportedNamespaceBundleSplitAlgorithms=range_equally_divide,topic_count_equally_divide,\
    specified_positions_divide,flow_or_qps_equally_divide
defaultNamespaceBundleSplitAlgorithm=range_equally_divide
loadBalancerLoadSheddingStrategy=org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder
loadBalancerLoadPlacementStrategy=\
org.apache.pulsar.broker.loadbalance.impl.LeastLongTermMessageRate
loadBalancerHistoryResourcePercentage=0.9
loadBalancerBandwidthInResourceWeight=1.0
loadBalancerDirectMemoryResourceWeight=0
loadBalancerAvgShedderLowThreshold = 15
maxUnloadPercentage = 0.2
loadBalancerServiceUnitTableViewSyncer=None
transactionCoordinatorEnabled=false

### --- Deprecated settings --- ###
loadBalancerMemoryResourceWeight=0
zookeeperServers=
globalZookeeperServers=
configurationStoreServers=
zooKeeperSessionTimeoutMillis=-1
zooKeeperOperationTimeoutSeconds=-1
zooKeeperCacheExpirySeconds=-1
"""


def test_a_broker_conf_as_pulsar_ships_it_is_accepted(write: Write) -> None:
    reading: Reading = read(write(PULSAR_STYLE), {}, [])
    assert reading.problems == ()
    assert reading.unknown == ()
    assert {"numIOThreads", "bookkeeper_tlsHostnameVerificationEnabled"} <= {
        entry.key for entry in reading.unused
    }
    assert str(reading.settings.metadata.store_url) == ("zk:zk-1:2181,zk-2:2181,zk-3:2181/pulsar")
    assert reading.settings.metadata.session_timeout_ms == 30_000
