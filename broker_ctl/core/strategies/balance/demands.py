"""What bundles demand of each resource of a broker, and how sure that is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import BrokerLoad, SystemUsage, UsageWeights
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import Smoothing

if TYPE_CHECKING:
    from broker_ctl.core.cluster.columns import Floats
    from broker_ctl.core.strategies.balance.demand_table import DemandTable


# Which resources of a broker count, and how much each broker has and uses of them.


# One number for each of `Resources.active`.
Demand = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Resources:
    """Which resources count, and how much each broker has of them.

    Attributes:
        active: their places in `SystemUsage.resources`; none: nobody says how full it is, and
            bytes are compared instead.
        weights: of each of them.
    """

    active: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, view: ClusterView, weights: UsageWeights) -> "Resources":
        """Those with a weight that anybody has, where anybody uses any."""
        factors = _factors(weights)
        rows = [broker.load.usage.resources for broker in view.brokers.values()]
        active = tuple(
            place
            for place, factor in enumerate(factors)
            if factor > 0 and any(row[place].limit > 0 for row in rows)
        )
        if not any(row[place].percent > 0 for row in rows for place in active):
            active = ()
        return cls(active, tuple(factors[place] for place in active))

    @property
    def is_bytes(self) -> bool:
        """Whether bytes are compared."""
        return not self.active

    def capacities(self, view: ClusterView) -> Mapping[str, Demand]:
        """What each broker has of each; infinite where it does not say.

        Where no broker reports usage, a mean broker is assumed to be half full.
        """
        if self.is_bytes:
            total = math.fsum(each.expected.throughput_bytes for each in view.brokers.values())
            each_bytes = max(total, 1.0) / max(1, len(view.brokers)) * 2
            return dict.fromkeys(view.brokers, (each_bytes,))
        return {
            broker_id: tuple(
                broker.load.usage.resources[place].limit / weight or math.inf
                for place, weight in zip(self.active, self.weights, strict=True)
            )
            for broker_id, broker in view.brokers.items()
        }

    def unlisted(self, load: BrokerLoad) -> Demand:
        """What a broker uses for bundles that its report does not list."""
        if self.is_bytes:
            return (load.unlisted.throughput,)
        rest = load.unlisted.throughput
        if not rest:
            return (0.0,) * len(self.active)
        part = rest / load.total.throughput
        return tuple(part * used for used in self.used(load.usage))

    def used(self, usage: SystemUsage) -> Demand:
        """What a broker uses of each."""
        return tuple(usage.resources[place].usage for place in self.active)


def _factors(weights: UsageWeights) -> tuple[float, ...]:
    return (
        weights.cpu,
        weights.memory,
        weights.direct_memory,
        weights.bandwidth_in,
        weights.bandwidth_out,
    )


# Demand of each bundle, averaged over a minute and over half an hour.
#
# A bundle's traffic fluctuates around a level that changes slowly, and half of a deviation is
# gone after some ten minutes: a move in response to it is wasted. So the planner uses the steady
# demand, over half an hour, and the recent demand only for brokers in acute trouble. A bundle
# whose recent demand is far from its steady one has changed permanently: its past is ignored then
# (docs: planner-sources, load-history-sources). But what changes again and again comes back by
# itself, as do consumers that flap and jobs that run every hour: from the third time on such a
# bundle keeps its average, since a move in response would have to be undone by another one. A
# surge is believed at once, unless it has come and gone before.


class Known(NamedTuple):
    """The demand of one bundle.

    Attributes:
        seen_s: seconds since its first reading; below 0: none, the demand is an estimate.
        swings: how often it changed lately; what is long ago counts less.
    """

    steady: Demand
    recent: Demand
    seen_s: float
    swings: float = 0.0


@dataclass(frozen=True, slots=True)
class Demands:
    """Demands by bundle; a plain value.

    Attributes:
        active: the resources that the demands list.
        known: demands by bundle.
        observed_s: time of the last reading.
    """

    active: tuple[int, ...] = ()
    known: Mapping[Bundle, Known] = field(default_factory=dict)
    observed_s: float | None = None

    def steady_of(self, bundles: Sequence[Bundle]) -> "Floats":
        """The demand of each over half an hour, shape (bundles, resources); NaN without one."""
        return self.table.steady_of(bundles)

    def recent_of(self, bundles: Sequence[Bundle]) -> "Floats":
        """The same, over the last minute."""
        return self.table.recent_of(bundles)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "active": list(self.active),
            "known": {
                str(bundle): [list(known.steady), list(known.recent), known.seen_s, known.swings]
                for bundle, known in self.known.items()
            },
            "observed_s": self.observed_s,
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Demands":
        """What ``to_row`` wrote."""
        return cls(
            tuple(row.get("active", ())),
            {
                # Rows of earlier releases have no swings.
                Bundle.parse(text): Known(tuple(steady), tuple(recent), *map(float, counts))
                for text, (steady, recent, *counts) in row.get("known", {}).items()
            },
            row.get("observed_s"),
        )

    @property
    def table(self) -> "DemandTable":
        """The demands as arrays."""
        from broker_ctl.core.strategies.balance.demand_table import DemandTable

        return DemandTable.of(self.known, max(1, len(self.active)))

    def after(self, view: ClusterView, resources: Resources, smoothing: Smoothing) -> "Demands":
        """The demands after one more reading of every bundle that its owner has reported.

        Bundles that left the view are removed; a new one starts with its first reading.
        """
        import numpy as np

        from broker_ctl.core.strategies.balance.demand_table import readings_of

        before = self if self.active == resources.active else Demands(resources.active)
        before_s = view.taken_at_s if self.observed_s is None else self.observed_s
        elapsed_s = max(0.0, view.taken_at_s - before_s)
        surging = np.zeros(len(view.bundles), bool)
        if view.surges:
            surging[:] = [view.surge_of(bundle) is not None for bundle in view.bundles]
        known = before.table.after(
            view.bundles,
            readings_of(view, resources, view.bundles.values()),
            surging,
            elapsed_s,
            smoothing,
        )
        return Demands(resources.active, known, view.taken_at_s)
