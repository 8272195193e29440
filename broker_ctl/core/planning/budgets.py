"""Ledger of the budgets: what moves in flight and planned moves have left of them."""

from collections import Counter
from dataclasses import dataclass, replace
from math import fsum
from typing import Final, Self

from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.cluster.ends import rest_text, room_text
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load_vector import throughput_text
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.rules.rules import Budgets

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """Spent and allowed. A move in flight counts for both brokers.

    For the hour only moves that the balancer chose count.

    Attributes:
        budgets: the limits.
        per_broker: moves in flight by broker.
        per_namespace: moves in flight by namespace.
        moves: moves in flight.
        moved_bytes: bytes/s moved in the last hour.
        cluster_bytes: bytes/s of the whole cluster.
    """

    budgets: Budgets
    per_broker: Counter[str]
    per_namespace: Counter[Namespace]
    moves: int
    moved_bytes: float
    cluster_bytes: float

    @classmethod
    def of(cls, view: ClusterView, budgets: Budgets) -> Self:
        """The ledger before anything is planned."""
        moves = view.moves.values()
        settled = (
            past.throughput_bytes for past in view.settled if view.taken_at_s - past.at_s < _HOUR_S
        )
        in_flight = (
            view.bundles[move.bundle].load_vector.throughput_bytes
            for move in moves
            if move.is_own and move.bundle in view.bundles
        )
        return cls(
            budgets=budgets,
            per_broker=Counter(end for move in moves for end in (move.source, move.destination)),
            per_namespace=Counter(move.bundle.namespace for move in moves),
            moves=len(moves),
            moved_bytes=fsum((*settled, *in_flight)),
            cluster_bytes=fsum(b.expected.throughput_bytes for b in view.brokers.values()),
        )

    def after(self, transfer: Transfer) -> "Ledger":
        """The ledger with one more move in flight."""
        return replace(
            self,
            per_broker=self.per_broker + Counter((transfer.source, transfer.destination)),
            per_namespace=self.per_namespace + Counter((transfer.bundle.namespace,)),
            moves=self.moves + 1,
            moved_bytes=self.moved_bytes
            + transfer.load_vector.throughput_bytes * transfer.reason.is_own,
        )

    def has_room(self, broker_id: str) -> bool:
        """Return whether the broker may take part in one more move."""
        return self.per_broker[broker_id] < self.budgets.max_moves_per_broker

    def refusal(
        self, view: ClusterView, bundle: Bundle, source: str, why: Reason
    ) -> tuple[Reason, str] | None:
        """Why the bundle may not leave its broker, regardless of the destination.

        A drain must come to an end: only the limits of moves in flight apply to it.
        """
        budgets, namespace = self.budgets, bundle.namespace
        if self.moves >= budgets.max_moves:
            text = f"{self.moves} of {budgets.max_moves} moves are in flight, the most"
            return Reason.BUDGET_CLUSTER, f"{text} (loadBalancerMaxMovesInFlight), until one ends"
        if not self.has_room(source):
            limit = budgets.max_moves_per_broker
            return Reason.BUDGET_BROKER, most_moves_text(source, limit)
        if why.is_drain:
            return None
        size = len(view.rings[namespace].bundles)
        limit = max(1, int(size * budgets.namespace_ratio))
        if self.per_namespace[namespace] >= limit:
            text = f"{limit} of {size} bundles of {namespace} are moving, the most at a time"
            return (
                Reason.BUDGET_NAMESPACE,
                f"{text} ({budgets.namespace_ratio:.0%}), until one ends",
            )
        if not why.is_own:
            return None
        return self._cooling(view, bundle) or self._hourly(view, bundle)

    def _cooling(self, view: ClusterView, bundle: Bundle) -> tuple[Reason, str] | None:
        unloaded_s = view.bundles[bundle].last_unloaded_s
        if unloaded_s is None or view.taken_at_s - unloaded_s >= self.budgets.cool_down_s:
            return None
        return Reason.COOLING_DOWN, rest_text(view, unloaded_s + self.budgets.cool_down_s)

    def _hourly(self, view: ClusterView, bundle: Bundle) -> tuple[Reason, str] | None:
        allowed_bytes = self.cluster_bytes * self.budgets.hourly_load_ratio
        wanted_bytes = self.moved_bytes + view.bundles[bundle].load_vector.throughput_bytes
        if self.moved_bytes <= 0 or wanted_bytes <= allowed_bytes:
            return None
        return Reason.BUDGET_HOURLY_LOAD, (
            f"{throughput_text(wanted_bytes)} would have moved within the hour, "
            f"{throughput_text(allowed_bytes)} may (loadBalancerMaxLoadMovedPerHourPercentage), "
            + room_text(view, wanted_bytes - allowed_bytes)
        )


def most_moves_text(who: str, limit: int) -> str:
    """Why brokers take part in no further move."""
    return (
        f"{who} takes part in {limit} moves, the most "
        "(loadBalancerMaxMovesInFlightPerBroker), until one ends"
    )
