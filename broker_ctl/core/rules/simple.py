"""The rules of the Simple manager (docs: pulsar-simple-manager)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Any, Final

# By the name of a node below /loadbalance/settings: the key in the node's map, and its meaning.
DYNAMIC_SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "overload_threshold": ("overloadThreshold", "overload_percent"),
    "comfort_load_threshold": ("comfortLoadThreshold", "comfort_percent"),
    "underload_threshold": ("underloadThreshold", "underload_percent"),
    "auto_bundle_split_enabled": ("autoBundleSplitEnabled", "is_splitting"),
    "strategy": ("loadBalancerStrategy", "strategy"),
    "load_factor_cpu": ("loadFactorCPU", "cpu_per_msg"),
    "load_factor_mem": ("loadFactorMemory", "memory_per_group_mib"),
}


class SimpleStrategy(StrEnum):
    """How a receiver is chosen, by Pulsar's name (loadBalancerPlacementStrategy)."""

    LEAST_LOADED = "leastLoadedServer"
    LEAST_MSG_RATE = "leastMsgPerSecond"
    WEIGHTED_RANDOM = "weightedRandomSelection"


@dataclass(frozen=True, slots=True)
class SimpleRules:
    """Thresholds in percent of a resource's limit; defaults are Pulsar's.

    Attributes:
        overload_percent: usage above which a broker sheds
            (loadBalancerBrokerOverloadedThresholdPercentage).
        comfort_percent: a broker may receive shed bundles if all its resources are below this
            (loadBalancerBrokerComfortLoadLevelPercentage).
        underload_percent: usage of the chosen broker above which an idle broker is preferred
            (loadBalancerBrokerUnderloadedThresholdPercentage).
        strategy: loadBalancerPlacementStrategy.
        is_splitting: whether splits are enabled; None: operators have not set it.
        cpu_per_msg, memory_per_group_mib: factors set by operators; None: the measured ones apply.
    """

    overload_percent: float = 85.0
    comfort_percent: float = 65.0
    underload_percent: float = 50.0
    strategy: SimpleStrategy = SimpleStrategy.LEAST_LOADED
    is_splitting: bool | None = None
    cpu_per_msg: float | None = None
    memory_per_group_mib: float | None = None

    def under(self, texts: Mapping[str, str]) -> tuple["SimpleRules", tuple[str, ...]]:
        """Return these rules with operators' overrides, by the keys of `DYNAMIC_SETTINGS`.

        An invalid override is ignored and reported; the others apply.
        """
        rules, complaints = self, list[str]()
        for key, name in DYNAMIC_SETTINGS.values():
            if key not in texts:
                continue
            try:
                changed: dict[str, Any] = {name: _parse(name, texts[key])}
                rules = replace(rules, **changed)
            except ValueError as error:
                complaints.append(f"{key}={texts[key][:80]!r}: {error}")
        return rules, tuple(complaints)


def _parse(name: str, text: str) -> float | bool | SimpleStrategy:
    if name == "strategy":
        if text not in list(SimpleStrategy):
            raise ValueError(f"one of {', '.join(SimpleStrategy)} is allowed")
        return SimpleStrategy(text)
    if name == "is_splitting":
        if text not in {"true", "false"}:
            raise ValueError("true or false is allowed")
        return text == "true"
    try:
        value = float(text)
    except ValueError:
        raise ValueError("a number is allowed") from None
    highest = 100.0 if name.endswith("_percent") else float("inf")
    if not isfinite(value) or not 0 < value <= highest:
        raise ValueError(f"a number above 0 and up to {highest:g} is allowed")
    return value
