"""What a rollout would do: where the bundles of each broker go and come back from.

The restarts are played through on the view, with the rules that carry them out. Whether the rest
can carry the load is known before the first broker stops.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rollout.evacuation import evacuate, give_back
from broker_ctl.core.rollout.order import Batch, RolloutScope, Seats, order_batches
from broker_ctl.core.rules.rules import Budgets, PlacementRules

# Between two groups of moves of a drain, and what a group takes.
_ROUND_S: Final = 1.2
# Assumed for stopping and starting a broker, until its gates are open.
_RESTART_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """What happens to the bundles of brokers that restart together.

    Attributes:
        brokers: their ids.
        receivers: number of bundles that each receiver gets.
        staying: number of bundles that no other broker may receive.
        highest_usage_ratio: usage of the fullest of the others meanwhile, 1.0 is full.
        fullest: that broker.
        drain_s: seconds until they are empty.
    """

    brokers: Batch
    receivers: Mapping[str, int]
    staying: int
    highest_usage_ratio: float
    fullest: str
    drain_s: float

    @property
    def moves(self) -> int:
        """Number of bundles that leave."""
        return sum(self.receivers.values())

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        most = self.highest_usage_ratio
        return {
            "brokers": list(self.brokers),
            "moves": self.moves,
            "receivers": dict(self.receivers),
            "staying": self.staying,
            "highest_usage_ratio": most if math.isfinite(most) else None,
            "fullest": self.fullest,
            "drain_s": self.drain_s,
        }


@dataclass(frozen=True, slots=True)
class RolloutForecast:
    """The forecast of a whole rollout.

    Attributes:
        batches: in their order.
        given_back: moves that fill the brokers that restarted last.
        least_moves: no order and no placement needs fewer to restart every broker empty, and to
            end with a fair share for the last ones.
    """

    batches: tuple[BatchForecast, ...]
    given_back: int
    least_moves: int

    @classmethod
    def of(
        cls,
        view: ClusterView,
        scope: RolloutScope,
        seats: Seats,
        rules: PlacementRules,
        budgets: Budgets,
    ) -> Self:
        """Play a rollout through.

        Raises:
            OrderConflict: a broker is not alive, or nothing would be left to serve.
        """
        batches = order_batches(view, scope, seats)
        rolled = {each for batch in batches for each in batch}
        settled = set(view.brokers) - rolled
        least = _least_moves(view, batches, settled)
        now, found = view, []
        for batch in batches:
            proposals = evacuate(now, batch, settled, rules)
            moves = [each for each in proposals if isinstance(each, Transfer)]
            for move in moves:
                now = now.after(move)
            staying = len(proposals) - len(moves)
            found.append(_batch(now, batch, moves, staying, budgets))
            settled |= {*batch}
        gifts = give_back(now, batches[-1], rules) if batches else ()
        return cls(tuple(found), len(gifts), least + len(gifts))

    @property
    def moves(self) -> int:
        """Number of moves of the whole rollout."""
        return sum(batch.moves for batch in self.batches) + self.given_back

    @property
    def duration_s(self) -> float:
        """Seconds from the first drain to the end, if a restart takes half a minute."""
        return sum(batch.drain_s + _RESTART_S for batch in self.batches)

    @property
    def longest_drain_s(self) -> float:
        """Seconds that the longest drain of a single batch takes."""
        return max((batch.drain_s for batch in self.batches), default=0.0)

    def refusal(self, limit_ratio: float) -> str:
        """Why the rest cannot carry the load; empty if it can."""
        for batch in self.batches:
            names = ", ".join(batch.brokers)
            if batch.staying:
                return (
                    f"{batch.staying} bundles could not leave {names}: no other broker may "
                    "receive them; broker-ctl drain --dry-run names them"
                )
            if batch.highest_usage_ratio > limit_ratio:
                return (
                    f"while {names} restarts, {batch.fullest} would have to carry "
                    f"{batch.highest_usage_ratio:.1%} of its capacity, the limit is "
                    f"{limit_ratio:.1%} (loadBalancerHeadroomLimitPercentage)"
                )
        return ""

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        most = max((batch.highest_usage_ratio for batch in self.batches), default=0.0)
        return {
            "batches": [batch.to_row() for batch in self.batches],
            "moves": self.moves,
            "moves_given_back": self.given_back,
            "least_moves": self.least_moves,
            "highest_usage_ratio": most if math.isfinite(most) else None,
            "duration_s": self.duration_s,
            "longest_drain_s": self.longest_drain_s,
        }


def _least_moves(view: ClusterView, batches: tuple[Batch, ...], outside: Collection[str]) -> int:
    """Every bundle leaves its broker once; those of the first batch twice if all brokers restart.

    What the last ones get back is added by the caller.
    """

    def movable(batch: Batch) -> int:
        owned = (bundle for each in batch for bundle in view.brokers[each].owned)
        return sum(not view.bundles[bundle].is_pinned for bundle in owned)

    first = movable(batches[0]) if batches and not outside else 0
    return sum(map(movable, batches)) + first


def _batch(
    after: ClusterView, batch: Batch, moves: list[Transfer], staying: int, budgets: Budgets
) -> BatchForecast:
    others = [broker for each, broker in after.brokers.items() if each not in batch]
    fullest = max(others, key=lambda broker: (broker.expected.usage_ratio, broker.broker_id))
    at_once = max(1, min(budgets.max_moves, budgets.max_moves_per_broker * len(batch)))
    return BatchForecast(
        batch,
        Counter(move.destination for move in moves),
        staying,
        fullest.expected.usage_ratio,
        fullest.broker_id,
        math.ceil(len(moves) / at_once) * _ROUND_S,
    )
