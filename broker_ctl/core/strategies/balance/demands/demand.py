"""Demand of each bundle, averaged over a minute and over half an hour.

A bundle's traffic fluctuates around a level that changes slowly, and half of a deviation is gone
after some ten minutes: a move in response to it is wasted. So the planner uses the steady demand,
over half an hour, and the recent demand only for brokers in acute trouble. A bundle whose recent
demand is far from its steady one has changed permanently: its past is ignored then (docs:
planner-sources, load-history-sources). But what changes again and again comes back by itself, as do
consumers that flap and jobs that run every hour: from the third time on such a bundle keeps its
average, since a move in response would have to be undone by another one. A surge is believed at
once, unless it has come and gone before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.balance import Smoothing
from broker_ctl.core.strategies.balance.resources import Demand, Resources

if TYPE_CHECKING:
    from broker_ctl.core.cluster.columns import Floats
    from broker_ctl.core.strategies.balance.demands.table import DemandTable


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
        from broker_ctl.core.strategies.balance.demands.table import DemandTable

        return DemandTable.of(self.known, max(1, len(self.active)))

    def after(self, view: ClusterView, resources: Resources, smoothing: Smoothing) -> "Demands":
        """The demands after one more reading of every bundle that its owner has reported.

        Bundles that left the view are removed; a new one starts with its first reading.
        """
        import numpy as np

        from broker_ctl.core.strategies.balance.demands.readings import readings_of

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
