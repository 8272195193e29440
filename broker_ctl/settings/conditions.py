"""Under which other settings a setting is read; declared beside the setting.

Elsewhere its value is taken, and nothing comes of it: `settings.effect` says so.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.core.strategies.catalog import BALANCE, SHEDDING
from broker_ctl.core.strategies.placement.catalog import PLACEMENT
from broker_ctl.settings.addresses import is_loopback


class Values(Protocol):
    """The settings, as far as a condition looks at them."""

    def text(self, key: str, /) -> str:
        """The value of a key as broker.conf spells it; empty where it is unset."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of other settings.

    Attributes:
        words: the settings that make it hold, as broker.conf spells them.
        keys: the settings that decide it.
    """

    words: str
    keys: tuple[str, ...]
    holds: Callable[[Values], bool]


def where(key: str, *texts: str) -> Condition:
    """Another setting has one of these values; in a list of names, one of them."""

    def holds(values: Values) -> bool:
        return not set(texts).isdisjoint(values.text(key).split(","))

    return Condition(f"{key}={' or '.join(texts)}", (key,), holds)


def unless(key: str, text: str) -> Condition:
    """Another setting has any value but this one, which no item of a list is either."""

    def holds(values: Values) -> bool:
        return text not in values.text(key).split(",")

    return Condition(f"{key} other than {text}", (key,), holds)


def given(key: str) -> Condition:
    """Another setting has a value at all."""
    return Condition(key, (key,), lambda values: values.text(key) != "")


def either(*conditions: Condition) -> Condition:
    """One of them is enough."""
    keys = dict.fromkeys(key for condition in conditions for key in condition.keys)
    return Condition(
        " or ".join(condition.words for condition in conditions),
        tuple(keys),
        lambda values: any(condition.holds(values) for condition in conditions),
    )


def all_of(*conditions: Condition) -> Condition:
    """Each of them is needed."""
    keys = dict.fromkeys(key for condition in conditions for key in condition.keys)
    return Condition(
        " and ".join(condition.words for condition in conditions),
        tuple(keys),
        lambda values: all(condition.holds(values) for condition in conditions),
    )


def shedding_by(*names: str) -> Condition:
    """One of these strategies sheds, or one of another package, which may read anything."""
    key = "loadBalancerLoadSheddingStrategy"

    def holds(values: Values) -> bool:
        chosen = values.text(key).split(",")
        return any(name in names or name not in SHEDDING.entries for name in chosen)

    return Condition(f"{key}={' or '.join(names)}", (key,), holds)


def placing_by(name: str) -> tuple[Condition, ...]:
    """What a setting of this placement strategy needs."""
    key = "loadBalancerLoadPlacementStrategy"

    def holds(values: Values) -> bool:
        # One of another package may read anything.
        chosen = values.text(key)
        return chosen == name or chosen not in PLACEMENT.entries

    return (BALANCED, MODULAR, Condition(f"{key}={name}", (key,), holds))


def _outlasts_period(values: Values) -> bool:
    timeout_ms, tick_ms = (int(values.text(key)) for key in _PERIOD_KEYS)
    grace_ms = int(values.text("brokerReclaimGraceMillis"))
    return grace_ms / 1000 >= LeaseRules(timeout_ms / 1000, tick_ms / 1000).period_s


_PERIOD_KEYS: Final = ("metadataStoreSessionTimeoutMillis", "zookeeperTickTimeMillis")
# A shorter grace is made as long as that.
A_PERIOD_OR_MORE: Final = Condition(
    "a brokerReclaimGraceMillis of a heartbeat's period or more",
    _PERIOD_KEYS,
    _outlasts_period,
)
# Nothing reads it, whatever else is set: what the sentence of the setting says of it must do.
NEVER: Final = Condition("", (), lambda _: False)

SIMULATED: Final = where("dataPlane", "simulated")
WEBHOOK: Final = where("dataPlane", "webhook")
# Beside a Pulsar cluster nothing is owned, registered or reported, and no lookup is answered.
OWN_BROKER: Final = where("dataPlane", "simulated", "webhook")
ATTACHED: Final = where("dataPlane", "pulsar")
REPLICATING: Final = (OWN_BROKER, given("brokerId"))
TLS_PORT: Final = either(given("webServicePortTls"), given("lookupServicePortTls"))
AUTHENTICATED: Final = where("authenticationEnabled", "true")
# Somebody on another machine reaches the port, and shows no token.
UNGUARDED: Final = Condition(
    "a bindAddress off loopback and authenticationEnabled=false",
    ("bindAddress", "authenticationEnabled"),
    lambda values: (
        not is_loopback(values.text("bindAddress"))
        and values.text("authenticationEnabled") == "false"
    ),
)
BATCHED: Final = where("metadataStoreBatchingEnabled", "true")

MODULAR: Final = where("loadManagerClassName", "ModularLoadManagerImpl")
SIMPLE: Final = where("loadManagerClassName", "SimpleLoadManagerImpl")
# NoopLoadManager is alone. Beside a Pulsar cluster somebody leads in any case.
BALANCED: Final = either(
    where("loadManagerClassName", "ModularLoadManagerImpl", "SimpleLoadManagerImpl"), ATTACHED
)
NOT_SHED_BY_BALANCE: Final = unless("loadBalancerLoadSheddingStrategy", BALANCE)
NOT_PLACED_BY_BALANCE: Final = unless("loadBalancerLoadPlacementStrategy", BALANCE)
ENABLED: Final = (BALANCED, where("loadBalancerEnabled", "true"))
SHEDDING_ENABLED: Final = (*ENABLED, where("loadBalancerSheddingEnabled", "true"))
SPLITTING_ENABLED: Final = (*ENABLED, where("loadBalancerAutoBundleSplitEnabled", "true"))
# Only brokers of our own merge.
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
# A split that is ordered by hand looks at them too, where it goes by the flow.
LIMITING: Final = (either(OWN_BROKER, all_of(*RESHAPING_ENABLED)),)


def shedders(*names: str) -> tuple[Condition, ...]:
    """What a setting of these shedding strategies needs."""
    return (*SHEDDING_ENABLED, MODULAR, shedding_by(*names))


BALANCING: Final = shedders(BALANCE)
DETECTING: Final = (*BALANCING, where("loadBalancerSlowBrokerDetectionEnabled", "true"))
