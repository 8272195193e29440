"""Which parts of a Pulsar cluster's balancer are on, and how they are switched off at run time."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR, SIMPLE

# Reads Prometheus' text format, as far as a broker's own gauges and counters go.


_SAMPLE: Final = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Value by name and sorted labels.
Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def parse_samples(text: str) -> Samples:
    """All samples; a line that is not one, or whose value is not a number, is left out."""
    found = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        found[match["name"], tuple(sorted(_LABEL.findall(match["labels"] or "")))] = value
    return found


def sum_of(samples: Samples, name: str, **labels: str) -> float | None:
    """The sum of the samples of a name that have these labels; None if there are none."""
    wanted = labels.items()
    values = [
        value for (key, having), value in samples.items() if key == name and wanted <= set(having)
    ]
    return sum(values) if values else None


# Which parts of a Pulsar cluster's balancer are on, by what its brokers run with.
#
# Two balancers on one cluster undo each other's moves. The leading broker sheds and splits, and
# any broker may lead next, so all are asked (docs: pulsar-leader-tasks, pulsar-admin-api,
# pulsar-configuration).


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
# The only keys that are read: a runtime configuration contains passwords, too.
KEYS: Final = frozenset(_DEFAULTS)


@dataclass(frozen=True, slots=True)
class Automatism:
    """A setting of the cluster that conflicts with broker-ctl.

    Attributes:
        key: name in broker.conf.
        value: its value now.
        brokers: those with this value, sorted.
        why: its effect on bundles, in one sentence.
        is_dynamic: whether it may be changed at run time; otherwise these brokers must be
            restarted.
        wanted: the value that it should have.
    """

    key: str
    value: str
    brokers: tuple[str, ...]
    why: str
    is_dynamic: bool
    wanted: str

    @property
    def is_rival(self) -> bool:
        """Whether it moves or splits bundles by itself.

        The other settings make the cluster ignore the destinations of unloads.
        """
        return self.key in {SHEDDING, AUTO_SPLIT, AUTO_UNLOAD}

    @property
    def command(self) -> str:
        """The command, or the step, that corrects it."""
        if self.is_dynamic:
            return (
                "pulsar-admin brokers update-dynamic-config "
                f"--config {self.key} --value {self.wanted}"
            )
        return f"set {self.key}={self.wanted} in broker.conf and restart {', '.join(self.brokers)}"

    def __str__(self) -> str:
        return f"{self.key}={self.value}: {self.why}"


@dataclass(frozen=True, slots=True)
class _WantedSetting:
    key: str
    why: str
    wanted: str


_BLIND: Final = _WantedSetting(
    ENABLED, "no broker reports its load, and no leader honours a destination", "true"
)
_MIXED: Final = _WantedSetting(
    MANAGER,
    "other brokers run another load manager: neither hands bundles over to the other's brokers",
    MODULAR.class_name,
)
_SIMPLE: Final = _WantedSetting(
    MANAGER,
    "the simple manager ignores destinations: it places unloaded bundles by its own rules",
    MODULAR.class_name,
)
_SHEDS: Final = _WantedSetting(
    SHEDDING,
    "the leading broker unloads bundles by its own rules, to destinations of its choice",
    "false",
)
_SPLITS: Final = _WantedSetting(
    AUTO_SPLIT, "the leading broker splits bundles by limits of its own", "false"
)
_UNLOADS: Final = _WantedSetting(
    AUTO_UNLOAD,
    "the halves of a bundle that was split by the cluster are unloaded at once",
    "false",
)


def judge(
    configurations: Mapping[str, Mapping[str, str]], dynamic: frozenset[str]
) -> tuple[Automatism, ...]:
    """The conflicting settings, the worst first; empty if all of the cluster's balancing is off.

    Args:
        configurations: runtime values of each broker, by broker id; an absent key has its default.
        dynamic: the keys that can be changed at run time.
    """
    found: dict[tuple[_WantedSetting, str], list[str]] = {}
    managers = {values.get(MANAGER, _DEFAULTS[MANAGER]) for values in configurations.values()}
    for broker_id, values in sorted(configurations.items()):
        for rule in _broken_rules({**_DEFAULTS, **values}, managers):
            value = values.get(rule.key, _DEFAULTS[rule.key])
            found.setdefault((rule, value), []).append(broker_id)
    order = (_BLIND, _MIXED, _SIMPLE, _SHEDS, _SPLITS, _UNLOADS)
    return tuple(
        Automatism(
            rule.key,
            value,
            tuple(brokers),
            rule.why,
            # Pulsar lists the manager's class as dynamic; but after a change at run time no broker
            # would take over the bundles that the brokers own.
            is_dynamic=rule.key in dynamic and rule.key != MANAGER,
            wanted=rule.wanted,
        )
        for (rule, value), brokers in sorted(
            found.items(), key=lambda item: order.index(item[0][0])
        )
    )


def _broken_rules(values: Mapping[str, str], managers: Collection[str]) -> Iterator[_WantedSetting]:
    """The rules that one broker's values break, beside brokers with these load managers."""
    if values[MANAGER] == SIMPLE.class_name:
        yield _SIMPLE
    if values[MANAGER] == EXTENSIBLE.class_name and len(managers) > 1:
        yield _MIXED
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
    """Parse as Java does: every value but true is false."""
    return value.strip().lower() == "true"
