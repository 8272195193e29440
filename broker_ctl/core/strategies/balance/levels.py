"""Usage of every broker by the demand of its bundles, and which brokers are too full."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Any, Self

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import BalanceRules
from broker_ctl.core.strategies.balance.demands import Demand, Demands, Resources

if TYPE_CHECKING:
    from broker_ctl.core.cluster.columns import Floats
    from broker_ctl.core.strategies.balance.problem import Peers


@dataclass(frozen=True, slots=True)
class Levels:
    """Usage of the brokers that are not draining, by id.

    Attributes:
        usage: by steady demands, 1.0 is full.
        recent: by recent demands.
        load: steady, of each resource that counts, in its unit.
        capacity: likewise.
        means: mean usage of the brokers that may carry what a broker carries, where an isolation
            policy makes it another one than that of all.
        recent_means: likewise, by recent demands.
    """

    usage: Mapping[str, float] = field(default_factory=dict)
    recent: Mapping[str, float] = field(default_factory=dict)
    load: Mapping[str, Demand] = field(default_factory=dict)
    capacity: Mapping[str, Demand] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    recent_means: Mapping[str, float] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values; what has no limit is None."""
        return {
            "usage": dict(self.usage),
            "recent": dict(self.recent),
            "load": {each: list(load) for each, load in self.load.items()},
            "capacity": {
                each: [None if math.isinf(limit) else limit for limit in capacity]
                for each, capacity in self.capacity.items()
            },
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """What ``to_row`` wrote."""
        return cls(
            dict(row.get("usage", {})),
            dict(row.get("recent", {})),
            {each: tuple(load) for each, load in row.get("load", {}).items()},
            {
                each: tuple(math.inf if limit is None else limit for limit in capacity)
                for each, capacity in row.get("capacity", {}).items()
            },
        )

    @property
    def mean(self) -> float:
        """Mean usage; 0 without brokers."""
        return _mean(self.usage)

    def mean_of(self, broker_id: str) -> float:
        """Mean usage of the brokers that a broker is compared with."""
        return self.means.get(broker_id, self.mean)

    def ratio(self, broker_id: str) -> float:
        """Usage of a broker in means; 1 where no broker is used."""
        mean = self.mean_of(broker_id)
        return self.usage.get(broker_id, 0.0) / mean if mean > 0 else 1.0

    def too_full(self, rules: BalanceRules) -> list[str]:
        """Brokers above the limit of the band."""
        band, mean = rules.band, self.mean
        return [
            broker_id
            for broker_id, usage in self.usage.items()
            if usage > band.trigger(self.means.get(broker_id, mean))
        ]

    def in_trouble(self, rules: BalanceRules) -> list[str]:
        """Brokers that are so full now that they are relieved at once."""
        whole = _mean(self.recent)

        def mark(broker_id: str) -> float:
            mean = self.recent_means.get(broker_id, whole)
            severe = min(rules.overloaded_ratio, rules.severe_ratio * mean)
            return max(rules.trouble.trigger(mean), severe)

        return [each for each, usage in self.recent.items() if usage > mark(each)]


def levels_of(
    view: ClusterView,
    resources: Resources,
    demands: Demands,
    homes: Mapping[Bundle, str],
    silent_s: float = math.inf,
) -> Levels:
    """Levels once every move has arrived; ``silent_s``: age from which no report counts."""
    import numpy as np

    from broker_ctl.core.strategies.balance.problem import peers_of

    table, brokers = demands.table, sorted(view.brokers)
    rows = table.places_of(homes)
    numbers = {broker_id: number for number, broker_id in enumerate(brokers)}
    home = np.array([numbers.get(each, -1) for each in homes.values()], np.int32)
    order = np.argsort(home, kind="stable")
    ends = np.searchsorted(home[order], np.arange(len(brokers) + 1))
    load: dict[str, Demand] = {}
    now: dict[str, Demand] = {}
    for number, each in enumerate(brokers):
        here = rows[order[ends[number] : ends[number + 1]]]
        rest = resources.unlisted(view.brokers[each].load)
        load[each] = _sum(rest, table.rows.steady[here])
        now[each] = _sum(rest, table.rows.recent[here])
    capacity = resources.capacities(view)
    counted = [each for each in brokers if not view.brokers[each].is_draining]
    usage = {each: _fullest(load[each], capacity[each]) for each in counted}
    recent = {each: _fullest(now[each], capacity[each]) for each in counted}
    peers = peers_of(view, homes, counted, silent_s)
    return Levels(
        usage,
        recent,
        {each: load[each] for each in counted},
        {each: capacity[each] for each in counted},
        _means(peers, usage),
        _means(peers, recent),
    )


def _means(peers: "Peers", usage: Mapping[str, float]) -> Mapping[str, float]:
    """The smallest mean of the groups that each broker belongs to."""
    return {
        each: min(_mean({peer: usage[peer] for peer in group}) for group in groups)
        for each, groups in peers.items()
    }


def _sum(rest: Demand, demands: "Floats") -> Demand:
    """Exact, so that the order in which they come decides nothing."""
    columns = demands.T.tolist()
    return tuple(fsum([first, *column]) for first, column in zip(rest, columns, strict=True))


def _mean(usage: Mapping[str, float]) -> float:
    return fsum(usage.values()) / len(usage) if usage else 0.0


def _fullest(load: Iterable[float], capacity: Iterable[float]) -> float:
    return max(a / b for a, b in zip(load, capacity, strict=True))
