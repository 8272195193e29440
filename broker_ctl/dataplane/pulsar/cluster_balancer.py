"""Which parts of a Pulsar cluster's balancer are on, by what its brokers run with.

Two balancers on one cluster undo what each other does. Whichever broker leads sheds and splits,
and any may lead next: all must be asked (docs: pulsar-leader-tasks, pulsar-admin-api,
pulsar-configuration).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR, SIMPLE

ENABLED: Final = "loadBalancerEnabled"
SHEDDING: Final = "loadBalancerSheddingEnabled"
AUTO_SPLIT: Final = "loadBalancerAutoBundleSplitEnabled"
AUTO_UNLOAD: Final = "loadBalancerAutoUnloadSplitBundlesEnabled"
MANAGER: Final = "loadManagerClassName"

_DEFAULTS: Final = {
    ENABLED: "true",
    SHEDDING: "true",
    AUTO_SPLIT: "true",
    AUTO_UNLOAD: "true",
    MANAGER: MODULAR.class_name,
}
# The only keys that are read: a runtime configuration holds passwords, too.
KEYS: Final = frozenset(_DEFAULTS)


@dataclass(frozen=True, slots=True)
class Automatism:
    """A setting of the cluster that gets in the way.

    Attributes:
        key: name in broker.conf.
        value: what it is set to now.
        brokers: where; all brokers of the cluster, or some, sorted.
        why: what it does to bundles, in one sentence.
        is_dynamic: may be changed at run time; otherwise these brokers must be restarted.
        wanted: what it should be set to.
    """

    key: str
    value: str
    brokers: tuple[str, ...]
    why: str
    is_dynamic: bool
    wanted: str

    @property
    def is_rival(self) -> bool:
        """Whether it moves or splits by itself; otherwise no destination is honoured."""
        return self.key in {SHEDDING, AUTO_SPLIT, AUTO_UNLOAD}

    @property
    def command(self) -> str:
        """The line that sets it right."""
        if self.is_dynamic:
            return (
                "pulsar-admin brokers update-dynamic-config "
                f"--config {self.key} --value {self.wanted}"
            )
        return f"set {self.key}={self.wanted} in broker.conf and restart {', '.join(self.brokers)}"

    def __str__(self) -> str:
        return f"{self.key}={self.value}: {self.why}"


@dataclass(frozen=True, slots=True)
class _Rule:
    key: str
    why: str
    wanted: str


_BLIND: Final = _Rule(
    ENABLED, "no broker reports its load, and no leader honours a destination", "true"
)
_EXTENSIBLE: Final = _Rule(
    MANAGER,
    "the extensible manager places by itself and keeps its load data in topics, out of reach here",
    MODULAR.class_name,
)
_SIMPLE: Final = _Rule(
    MANAGER,
    "the simple manager honours no destination: what is unloaded goes wherever it likes",
    MODULAR.class_name,
)
_SHEDS: Final = _Rule(
    SHEDDING,
    "the leading broker unloads bundles by rules of its own, to wherever it likes",
    "false",
)
_SPLITS: Final = _Rule(
    AUTO_SPLIT, "the leading broker splits bundles by limits of its own", "false"
)
_UNLOADS: Final = _Rule(
    AUTO_UNLOAD,
    "the halves of a bundle that was split by the cluster are unloaded at once",
    "false",
)
_MANAGERS: Final = {EXTENSIBLE.class_name: _EXTENSIBLE, SIMPLE.class_name: _SIMPLE}


def judge(
    configurations: Mapping[str, Mapping[str, str]], dynamic: frozenset[str]
) -> tuple[Automatism, ...]:
    """What gets in the way, the worst first; nothing: all of it is off.

    Args:
        configurations: what each broker runs with, by broker id; an absent key has its default.
        dynamic: the keys that the cluster lets change at run time.
    """
    found: dict[tuple[_Rule, str], list[str]] = {}
    for broker_id, values in sorted(configurations.items()):
        for rule in _broken_rules({**_DEFAULTS, **values}):
            value = values.get(rule.key, _DEFAULTS[rule.key])
            found.setdefault((rule, value), []).append(broker_id)
    order = (_BLIND, _EXTENSIBLE, _SIMPLE, _SHEDS, _SPLITS, _UNLOADS)
    return tuple(
        Automatism(
            rule.key,
            value,
            tuple(brokers),
            rule.why,
            # Pulsar calls the manager's class dynamic; what the brokers held would be taken over
            # by nobody.
            is_dynamic=rule.key in dynamic and rule.key != MANAGER,
            wanted=rule.wanted,
        )
        for (rule, value), brokers in sorted(
            found.items(), key=lambda item: order.index(item[0][0])
        )
    )


def _broken_rules(values: Mapping[str, str]) -> Iterator[_Rule]:
    """What is wrong at one broker."""
    if values[MANAGER] in _MANAGERS:
        yield _MANAGERS[values[MANAGER]]
    if not _is_on(values[ENABLED]):
        yield _BLIND
        return  # without it nothing sheds or splits
    if _is_on(values[SHEDDING]):
        yield _SHEDS
    if _is_on(values[AUTO_SPLIT]):
        yield _SPLITS
        if _is_on(values[AUTO_UNLOAD]):
            yield _UNLOADS


def _is_on(value: str) -> bool:
    """As Java reads it: whatever is not true is false."""
    return value.strip().lower() == "true"
