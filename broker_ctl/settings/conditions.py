"""Conditions on other settings under which a setting is used; declared beside the setting.

If a condition does not hold, the value is accepted without effect: see `settings.effect`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from broker_ctl.core.strategies.shedding_strategies import BALANCE, SHEDDING
from broker_ctl.settings.addresses import StoreUrl, is_loopback


class Values(Protocol):
    """The settings that a condition reads."""

    def text(self, key: str, /) -> str:
        """The value of a key as broker.conf writes it; empty if unset."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on other settings.

    Attributes:
        words: the settings that make it hold, as broker.conf writes them.
        keys: the settings that it reads.
    """

    words: str
    keys: tuple[str, ...]
    holds: Callable[[Values], bool]


def where(key: str, *texts: str) -> Condition:
    """Another setting has one of these values; a list has one of them as an item."""

    def holds(values: Values) -> bool:
        return not set(texts).isdisjoint(values.text(key).split(","))

    return Condition(f"{key}={' or '.join(texts)}", (key,), holds)


def unless(key: str, text: str) -> Condition:
    """Another setting does not have this value; a list does not have it as an item."""

    def holds(values: Values) -> bool:
        return text not in values.text(key).split(",")

    return Condition(f"{key} other than {text}", (key,), holds)


def given(key: str) -> Condition:
    """Another setting has a value."""
    return Condition(key, (key,), lambda values: values.text(key) != "")


def either(*conditions: Condition) -> Condition:
    """One of the conditions holds."""
    keys = dict.fromkeys(key for condition in conditions for key in condition.keys)
    return Condition(
        " or ".join(condition.words for condition in conditions),
        tuple(keys),
        lambda values: any(condition.holds(values) for condition in conditions),
    )


def all_of(*conditions: Condition) -> Condition:
    """All of the conditions hold."""
    keys = dict.fromkeys(key for condition in conditions for key in condition.keys)
    return Condition(
        " and ".join(condition.words for condition in conditions),
        tuple(keys),
        lambda values: all(condition.holds(values) for condition in conditions),
    )


def shedding_by(*names: str) -> Condition:
    """One of these strategies sheds, or one of another package, which may read any setting."""
    key = "loadBalancerLoadSheddingStrategy"

    def holds(values: Values) -> bool:
        chosen = values.text(key).split(",")
        return any(name in names or name not in SHEDDING.entries for name in chosen)

    return Condition(f"{key}={' or '.join(names)}", (key,), holds)


def placing_by(name: str) -> tuple[Condition, ...]:
    """The conditions of settings of this placement strategy."""
    key = "loadBalancerLoadPlacementStrategy"

    def holds(values: Values) -> bool:
        # A strategy of another package may read any setting.
        chosen = values.text(key)
        return chosen == name or chosen not in PLACEMENT.entries

    return (BALANCED, MODULAR, Condition(f"{key}={name}", (key,), holds))


def _outlasts_period(values: Values) -> bool:
    timeout_ms, tick_ms = (int(values.text(key)) for key in _PERIOD_KEYS)
    grace_ms = int(values.text("brokerReclaimGraceMillis"))
    return grace_ms / 1000 >= LeaseRules(timeout_ms / 1000, tick_ms / 1000).period_s


_PERIOD_KEYS: Final = ("metadataStoreSessionTimeoutMillis", "zookeeperTickTimeMillis")
# A shorter grace period is extended to a heartbeat period.
A_PERIOD_OR_MORE: Final = Condition(
    "a brokerReclaimGraceMillis of a heartbeat's period or more",
    _PERIOD_KEYS,
    _outlasts_period,
)
# Nothing reads such a setting; its sentence must say that it has no effect.
NEVER: Final = Condition("", (), lambda _: False)

SIMULATED: Final = where("dataPlane", "simulated")
WEBHOOK: Final = where("dataPlane", "webhook")
# Beside a Pulsar cluster, this daemon owns, registers and reports nothing, and answers no lookup.
OWN_BROKER: Final = where("dataPlane", "simulated", "webhook")
ATTACHED: Final = where("dataPlane", "pulsar")
# Beside a Pulsar cluster whose metadata store is not read.
BY_ADMIN_API: Final = all_of(ATTACHED, given("pulsarStateUrl"))
IN_KUBERNETES: Final = Condition(
    "pulsarStateUrl=kubernetes:...",
    ("pulsarStateUrl",),
    lambda values: values.text("pulsarStateUrl").startswith("kubernetes:"),
)
REPLICATING: Final = (OWN_BROKER, given("brokerId"))
# The daemon itself keeps replicas, and serves them at brokerServicePort.
SIMULATED_REPLICAS: Final = all_of(SIMULATED, given("brokerId"))
REPLICATION_TLS: Final = all_of(SIMULATED_REPLICAS, where("simulatedReplicationTlsEnabled", "true"))
ADMIN_PORT: Final = either(given("adminServicePort"), given("adminServicePortTls"))
METRICS_PORT: Final = either(given("metricsServicePort"), given("metricsServicePortTls"))
TLS_PORT: Final = either(
    given("webServicePortTls"),
    given("lookupServicePortTls"),
    given("adminServicePortTls"),
    given("metricsServicePortTls"),
    REPLICATION_TLS,
)
LOOKUP_PORT: Final = either(given("lookupServicePort"), given("lookupServicePortTls"))
AUTHENTICATED: Final = where("authenticationEnabled", "true")
_PROVIDERS: Final = "authenticationProviders"
TOKEN_PROVIDER: Final = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"  # noqa: S105  # a class of Pulsar's
TLS_PROVIDER: Final = "org.apache.pulsar.broker.authentication.AuthenticationProviderTls"
OPENID_PROVIDER: Final = "org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID"
OPENID: Final = all_of(AUTHENTICATED, where(_PROVIDERS, OPENID_PROVIDER))
TOKENS: Final = all_of(AUTHENTICATED, where(_PROVIDERS, TOKEN_PROVIDER))
# Clients send a token, of whatever kind.
BEARER_TOKENS: Final = all_of(AUTHENTICATED, where(_PROVIDERS, TOKEN_PROVIDER, OPENID_PROVIDER))
CERTIFICATES: Final = all_of(AUTHENTICATED, where(_PROVIDERS, TLS_PROVIDER))
STATIC_TOKENS: Final = all_of(TOKENS, given("tokenSecretKeyFile"))
# What verifies tokens; brokers share the first two, and no client has the second.
TOKEN_SECRETS: Final = ("tokenSecretKeyFile", "tokenSecretKey")
TOKEN_KEYS: Final = (*TOKEN_SECRETS, "tokenPublicKey", "tokenJwksFile")
LISTENS_ON_LOOPBACK: Final = Condition(
    "a bindAddress on loopback",
    ("bindAddress",),
    lambda values: is_loopback(values.text("bindAddress")),
)
# The daemon draws a token for the commands on its machine.
LOOPBACK_TOKEN: Final = all_of(
    TOKENS,
    either(
        where("loopbackTokenEnabled", "true"),
        all_of(LISTENS_ON_LOOPBACK, *(where(key, "") for key in TOKEN_KEYS)),
    ),
)
CLUSTER_KEYS: Final = either(
    given("clusterKeyFile"), *(all_of(TOKENS, given(key)) for key in TOKEN_SECRETS)
)
SIGNED: Final = all_of(OWN_BROKER, CLUSTER_KEYS)
# Brokers prove their ids to each other.
BROKER_CERTIFICATES: Final = all_of(
    OWN_BROKER,
    where("brokerClientTlsEnabled", "true"),
    given("brokerClientCertificateFilePath"),
)


def _in_file(key: str) -> Condition:
    """A key that may also be written into the setting itself is in a file."""
    return Condition(key, (key,), lambda values: values.text(key).startswith(("file:", "/")))


def _used_file(*beside: Condition, keys: tuple[str, ...]) -> Condition:
    return either(*(all_of(*beside, given(key)) for key in keys))


PULSAR_SECRETS: Final = (
    "pulsarTlsTrustCertsFilePath",
    "pulsarTlsCertificateFilePath",
    "pulsarTokenFile",
)
# Files that a running daemon checks for changes.
RELOADED: Final = replace(
    either(
        TLS_PORT,
        given("clusterKeyFile"),
        STATIC_TOKENS,
        *(all_of(TOKENS, _in_file(key)) for key in ("tokenSecretKey", "tokenPublicKey")),
        all_of(TOKENS, given("tokenJwksFile")),
        _used_file(
            OWN_BROKER, keys=("brokerClientTrustCertsFilePath", "brokerClientCertificateFilePath")
        ),
        _used_file(ATTACHED, keys=PULSAR_SECRETS),
        _used_file(OPENID, keys=("openIDTokenIssuerTrustCertsFilePath",)),
        _used_file(WEBHOOK, keys=("dataPlaneSecretFile",)),
        _used_file(keys=("zookeeperAuthDigestFile", "zookeeperSaslDigestFile")),
        _used_file(
            where("zookeeperTlsEnabled", "true"),
            keys=("zookeeperTlsCaFile", "zookeeperTlsCertFile"),
        ),
    ),
    words="a file of certificates, keys or tokens",
)
AUTHORIZED: Final = all_of(AUTHENTICATED, where("authorizationEnabled", "true"))
# A client on another machine can reach the port without a token.


def off_loopback(key: str, hosts_of: Callable[[str], Sequence[str]]) -> Condition:
    """A setting names a host of another machine, or an address that others can reach."""
    return Condition(
        f"a {key} off loopback",
        (key,),
        lambda values: any(not is_loopback(host) for host in hosts_of(values.text(key))),
    )


def listens_off_loopback(address: str, port: Condition) -> Condition:
    """A port listens where other machines can reach it; without an own address, at bindAddress."""
    own = off_loopback(address, lambda host: [host] if host else ())
    if address == "bindAddress":
        return all_of(port, own)
    shared = all_of(where(address, ""), off_loopback("bindAddress", lambda host: [host]))
    return all_of(port, either(own, shared))


# A client on another machine can reach the port without a token.
UNGUARDED: Final = replace(
    all_of(
        where("authenticationEnabled", "false"),
        either(
            off_loopback("bindAddress", lambda host: [host]),
            listens_off_loopback("adminBindAddress", ADMIN_PORT),
        ),
    ),
    words="a bindAddress off loopback and authenticationEnabled=false",
)


def _store_hosts(text: str) -> Sequence[str]:
    return [server.host for server in StoreUrl.parse(text).servers] if text else ()


METADATA_STORES: Final = ("metadataStoreUrl", "configurationMetadataStoreUrl")
CONSOLE: Final = Condition(
    "consoleEnabled=true, or auto on loopback or with authentication",
    ("consoleEnabled", *UNGUARDED.keys),
    lambda values: (
        values.text("consoleEnabled") == "true"
        or (values.text("consoleEnabled") == "auto" and not UNGUARDED.holds(values))
    ),
)
STORE_OFF_LOOPBACK: Final = either(*(off_loopback(key, _store_hosts) for key in METADATA_STORES))
# The ZooKeeper servers know who this daemon is.
IDENTITIES: Final = ("zookeeperSaslDigestFile", "zookeeperTlsCertFile", "zookeeperAuthDigestFile")
HAS_IDENTITY: Final = either(*(given(key) for key in IDENTITIES))
ACTING: Final = either(OWN_BROKER, where("pulsarAct", "true"))
# Nodes of this daemon are open to every client of servers on other machines. A daemon that only
# watches a Pulsar cluster relies on no node of its own.
OPEN_STORE: Final = all_of(
    STORE_OFF_LOOPBACK,
    ACTING,
    either(
        where("zookeeperSetAcl", "false"),
        all_of(*(where(key, "") for key in IDENTITIES)),
    ),
)
BATCHED: Final = where("metadataStoreBatchingEnabled", "true")

MODULAR: Final = where("loadManagerClassName", "ModularLoadManagerImpl")
SIMPLE: Final = where("loadManagerClassName", "SimpleLoadManagerImpl")
# With NoopLoadManager the broker is alone. Beside a Pulsar cluster there is always a leader.
BALANCED: Final = either(
    where("loadManagerClassName", "ModularLoadManagerImpl", "SimpleLoadManagerImpl"), ATTACHED
)
NOT_SHED_BY_BALANCE: Final = unless("loadBalancerLoadSheddingStrategy", BALANCE)
NOT_PLACED_BY_BALANCE: Final = unless("loadBalancerLoadPlacementStrategy", BALANCE)
ENABLED: Final = (BALANCED, where("loadBalancerEnabled", "true"))
SHEDDING_ENABLED: Final = (*ENABLED, where("loadBalancerSheddingEnabled", "true"))
SPLITTING_ENABLED: Final = (*ENABLED, where("loadBalancerAutoBundleSplitEnabled", "true"))
# Only broker-ctl's own brokers merge.
MERGING_ENABLED: Final = (OWN_BROKER, *ENABLED, where("loadBalancerAutoBundleMergeEnabled", "true"))
RESHAPING_ENABLED: Final = (
    *ENABLED,
    either(
        where("loadBalancerAutoBundleSplitEnabled", "true"),
        where("loadBalancerAutoBundleMergeEnabled", "true"),
    ),
)
HOLDING_SPLITS: Final = all_of(
    *RESHAPING_ENABLED, where("loadBalancerQuietHoursHoldSplits", "true")
)
# A split on request reads them too if it goes by traffic.
LIMITING: Final = (either(OWN_BROKER, all_of(*RESHAPING_ENABLED)),)


def shedders(*names: str) -> tuple[Condition, ...]:
    """The conditions of settings of these shedding strategies."""
    return (*SHEDDING_ENABLED, MODULAR, shedding_by(*names))


BALANCING: Final = shedders(BALANCE)
DETECTING: Final = (*BALANCING, where("loadBalancerSlowBrokerDetectionEnabled", "true"))
