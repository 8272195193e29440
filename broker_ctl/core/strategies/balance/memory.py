"""The planner's memory: demands, former brokers, and slow brokers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.balance.bursts import Courses, courses_of_row, courses_to_row
from broker_ctl.core.strategies.balance.demands import Demands
from broker_ctl.core.strategies.balance.levels import Levels
from broker_ctl.core.strategies.balance.slowness import SlowMemory

_HOUR_S: Final = 3600.0


class FormerBroker(NamedTuple):
    """The broker that a bundle left last, and when (seconds on the clock of the views)."""

    broker_id: str
    at_s: float


class Imposed(NamedTuple):
    """Load that a death, a drain, a policy or an operator has moved: when, and its bytes/s."""

    at_s: float
    throughput_bytes: float


class Tracks(NamedTuple):
    """Where bundles have come from; see the attributes of `BalanceMemory`."""

    homes: Mapping[Bundle, str]
    left: Mapping[Bundle, FormerBroker]
    imposed: tuple[Imposed, ...]


@dataclass(frozen=True, slots=True)
class BalanceMemory:
    """What the planner keeps from cycle to cycle; a plain value.

    Attributes:
        demands: of each bundle.
        levels: of each broker by these demands; of the last view only.
        homes: broker that carried each bundle in the last view.
        left: former broker of each bundle that the balancer chose to move lately.
        imposed: what else has moved within the hour, by view. As much may move again without
            counting as churn: the balancer did not choose it.
        slow: score of each broker that is slow or was.
        courses: load of each bundle that changes lately, by slots of five minutes.
    """

    demands: Demands = field(default_factory=Demands)
    levels: Levels = field(default_factory=Levels)
    homes: Mapping[Bundle, str] = field(default_factory=dict)
    left: Mapping[Bundle, FormerBroker] = field(default_factory=dict)
    slow: SlowMemory = field(default_factory=SlowMemory)
    courses: Courses = field(default_factory=dict)
    imposed: tuple[Imposed, ...] = ()

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "demands": self.demands.to_row(),
            "levels": self.levels.to_row(),
            "homes": {str(bundle): broker_id for bundle, broker_id in self.homes.items()},
            "left": {str(bundle): list(left) for bundle, left in self.left.items()},
            "imposed": [list(each) for each in self.imposed],
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
            imposed=tuple(
                Imposed(float(at_s), float(moved)) for at_s, moved in row.get("imposed", [])
            ),
            slow=SlowMemory.recall(row.get("slow")),
            courses=courses_of_row(row.get("courses", {})),
        )


def track_moves(memory: BalanceMemory, view: ClusterView, return_s: float) -> Tracks:
    """The carrier of each bundle, and the former broker of those moved within ``return_s``.

    Only moves that the balancer chose count: it must not flap. What a death, a drain, a rollout, a
    policy or an operator has carried away may come back at once.
    """
    now_s = view.taken_at_s
    lately = {bundle: each for bundle, each in memory.left.items() if now_s - each.at_s < return_s}
    left = {bundle: each for bundle, each in lately.items() if bundle in view.bundles}
    homes: dict[Bundle, str] = {}
    imposed_bytes = 0.0
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
            if _is_own(memory, view, bundle):
                left[bundle] = FormerBroker(former, now_s)
            else:
                imposed_bytes += view.bundles[bundle].load_vector.throughput_bytes
    imposed = [each for each in memory.imposed if now_s - each.at_s < _HOUR_S]
    if imposed_bytes:
        imposed.append(Imposed(now_s, imposed_bytes))
    return Tracks(homes, left, tuple(imposed))


def _is_own(memory: BalanceMemory, view: ClusterView, bundle: Bundle) -> bool:
    """Whether the balancer chose what has changed the carrier since the last view."""
    move = view.moves.get(bundle)
    if move is not None:
        return move.is_own
    since_s, moved_s = memory.demands.observed_s, view.bundles[bundle].last_unloaded_s
    return moved_s is not None and (since_s is None or moved_s >= since_s)


def _inherit(
    left: dict[Bundle, FormerBroker], known: Mapping[Bundle, FormerBroker], bundle: Bundle
) -> None:
    """A bundle that a split or a merge made inherits the former broker of its parents."""
    for parent, where in known.items():
        if parent.overlaps(bundle):
            left[bundle] = where
            return
