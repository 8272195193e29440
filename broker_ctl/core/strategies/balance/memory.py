"""The planner's memory: demands, former brokers, and slow brokers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.strategies.balance.bursts import Courses, courses_of_row, courses_to_row
from broker_ctl.core.strategies.balance.demands.demand import Demands
from broker_ctl.core.strategies.balance.levels import Levels
from broker_ctl.core.strategies.balance.slow import SlowMemory


class FormerBroker(NamedTuple):
    """The broker that a bundle left last, and when (seconds on the clock of the views)."""

    broker_id: str
    at_s: float


@dataclass(frozen=True, slots=True)
class BalanceMemory:
    """What the planner keeps from cycle to cycle; a plain value.

    Attributes:
        demands: of each bundle.
        levels: of each broker by these demands; of the last view only.
        homes: broker that carried each bundle in the last view.
        left: former broker of each bundle that moved lately.
        slow: score of each broker that is slow or was.
        courses: load of each bundle that changes lately, by slots of five minutes.
    """

    demands: Demands = field(default_factory=Demands)
    levels: Levels = field(default_factory=Levels)
    homes: Mapping[Bundle, str] = field(default_factory=dict)
    left: Mapping[Bundle, FormerBroker] = field(default_factory=dict)
    slow: SlowMemory = field(default_factory=SlowMemory)
    courses: Courses = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "demands": self.demands.to_row(),
            "levels": self.levels.to_row(),
            "homes": {str(bundle): broker_id for bundle, broker_id in self.homes.items()},
            "left": {str(bundle): list(left) for bundle, left in self.left.items()},
            "slow": self.slow.to_row(),
            "courses": courses_to_row(self.courses),
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "BalanceMemory":
        """What ``to_row`` wrote."""
        return cls(
            demands=Demands.of_row(row.get("demands", {})),
            levels=Levels.of_row(row.get("levels", {})),
            homes={Bundle.parse(text): str(each) for text, each in row.get("homes", {}).items()},
            left={
                Bundle.parse(text): FormerBroker(str(broker_id), float(at_s))
                for text, (broker_id, at_s) in row.get("left", {}).items()
            },
            slow=SlowMemory.recall(row.get("slow")),
            courses=courses_of_row(row.get("courses", {})),
        )


def track_moves(
    memory: BalanceMemory, view: ClusterView, return_s: float
) -> tuple[Mapping[Bundle, str], Mapping[Bundle, FormerBroker]]:
    """The carrier of each bundle, and the former broker of those moved within ``return_s``."""
    now_s = view.taken_at_s
    lately = {bundle: each for bundle, each in memory.left.items() if now_s - each.at_s < return_s}
    left = {bundle: each for bundle, each in lately.items() if bundle in view.bundles}
    homes: dict[Bundle, str] = {}
    for bundle in view.bundles:
        # A bundle without an owner counts at its last broker.
        former = memory.homes.get(bundle)
        home = view.carrier(bundle) or former
        if home is None:
            continue
        homes[bundle] = home
        if former is None:
            _inherit(left, lately, bundle)
        elif former != home:
            left[bundle] = FormerBroker(former, now_s)
    return homes, left


def _inherit(
    left: dict[Bundle, FormerBroker], known: Mapping[Bundle, FormerBroker], bundle: Bundle
) -> None:
    """A bundle that a split or a merge made inherits the former broker of its parents."""
    for parent, where in known.items():
        if parent.overlaps(bundle):
            left[bundle] = where
            return
