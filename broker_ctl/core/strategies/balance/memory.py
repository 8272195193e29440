"""What the planner keeps: demands, who was where, and who is slow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.strategies.balance.demand import Demands
from broker_ctl.core.strategies.balance.levels import Levels
from broker_ctl.core.strategies.balance.slow import SlowMemory


class Left(NamedTuple):
    """Which broker a bundle left last, and when, on the clock of the views."""

    broker_id: str
    at_s: float


@dataclass(frozen=True, slots=True)
class BalanceMemory:
    """A plain value.

    Attributes:
        demands: of each bundle.
        levels: of each broker by these demands; of the last view only.
        homes: who carried each bundle in the last view.
        left: where each bundle came from that moved lately.
        slow: what is held against each broker.
    """

    demands: Demands = field(default_factory=Demands)
    levels: Levels = field(default_factory=Levels)
    homes: Mapping[Bundle, str] = field(default_factory=dict)
    left: Mapping[Bundle, Left] = field(default_factory=dict)
    slow: SlowMemory = field(default_factory=SlowMemory)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "demands": self.demands.to_row(),
            "levels": self.levels.to_row(),
            "homes": {str(bundle): broker_id for bundle, broker_id in self.homes.items()},
            "left": {str(bundle): list(left) for bundle, left in self.left.items()},
            "slow": self.slow.to_row(),
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "BalanceMemory":
        """What ``to_row`` wrote."""
        return cls(
            demands=Demands.of_row(row.get("demands", {})),
            levels=Levels.of_row(row.get("levels", {})),
            homes={Bundle.parse(text): str(each) for text, each in row.get("homes", {}).items()},
            left={
                Bundle.parse(text): Left(str(broker_id), float(at_s))
                for text, (broker_id, at_s) in row.get("left", {}).items()
            },
            slow=SlowMemory.recall(row.get("slow")),
        )


def moved(
    memory: BalanceMemory, view: ClusterView, return_s: float
) -> tuple[Mapping[Bundle, str], Mapping[Bundle, Left]]:
    """Who carries each bundle, and where those came from that moved within ``return_s``."""
    now_s = view.taken_at_s
    lately = {bundle: each for bundle, each in memory.left.items() if now_s - each.at_s < return_s}
    left = {bundle: each for bundle, each in lately.items() if bundle in view.bundles}
    homes: dict[Bundle, str] = {}
    for bundle in view.bundles:
        # What nobody owns for a moment still is where it was.
        former = memory.homes.get(bundle)
        home = view.carrier(bundle) or former
        if home is None:
            continue
        homes[bundle] = home
        if former is None:
            _inherit(left, lately, bundle)
        elif former != home:
            left[bundle] = Left(former, now_s)
    return homes, left


def _inherit(left: dict[Bundle, Left], known: Mapping[Bundle, Left], bundle: Bundle) -> None:
    """What a split or a merge has made comes from where its parents came from."""
    for parent, where in known.items():
        if parent.overlaps(bundle):
            left[bundle] = where
            return
