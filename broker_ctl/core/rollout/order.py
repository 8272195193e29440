"""In which order the brokers of a rollout restart.

One failure domain after the other, so that a fault of the new version never reaches two of them at
once. The canary is first. The controller of the partitions and the leader of the bundles are last:
each restart of a holder is an election (docs: pulsar-rolling-upgrade).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.errors import OrderConflict

# Brokers that restart together.
Batch = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RolloutScope:
    """Which brokers restart, and how many at a time.

    Attributes:
        brokers: ids; empty: all.
        per_domain: all brokers of a failure domain restart together, not one at a time.
        canary: the broker that restarts first and alone; empty: none.
    """

    brokers: tuple[str, ...] = ()
    per_domain: bool = False
    canary: str = ""

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "brokers": list(self.brokers),
            "max_unavailable": "zone" if self.per_domain else "1",
            "canary": self.canary or None,
        }


@dataclass(frozen=True, slots=True)
class Seats:
    """Who holds the elected offices; empty: nobody, or another program."""

    leader: str = ""
    controller: str = ""


def order_batches(view: ClusterView, scope: RolloutScope, seats: Seats) -> tuple[Batch, ...]:
    """The brokers of a rollout in the order of their restarts.

    Within a domain, a broker with few bundles is first: what the first one gives up moves twice.

    Raises:
        OrderConflict: a broker is not alive, or nothing would be left to serve.
    """
    chosen = set(scope.brokers or view.brokers)
    if scope.canary:
        chosen.add(scope.canary)
    if missing := sorted(chosen - view.brokers.keys()):
        raise OrderConflict(f"not live brokers with a load report: {', '.join(missing)[:200]}")
    if scope.per_domain and not view.constraints.domain_of:
        raise OrderConflict(
            "the cluster has no failure domains: broker-ctl failure-domains sets them; "
            "without them restart one broker at a time"
        )
    rest = _ordered(view, chosen - {scope.canary}, seats)
    batches: list[Batch] = [(scope.canary,)] if scope.canary else []
    if scope.per_domain:
        by_domain = groupby(rest, view.constraints.domain)
        batches += [tuple(group) for _, group in by_domain]
    else:
        batches += [(broker_id,) for broker_id in rest]
    if any(len(batch) == len(view.brokers) for batch in batches):
        raise OrderConflict("no other broker would be left to serve the bundles")
    return tuple(batches)


def _ordered(view: ClusterView, chosen: Iterable[str], seats: Seats) -> list[str]:
    domain = view.constraints.domain
    last = [domain(each) for each in (seats.controller, seats.leader) if each in view.brokers]

    def rank(broker_id: str) -> tuple[object, ...]:
        own = domain(broker_id)
        place = max((index + 1 for index, each in enumerate(last) if each == own), default=0)
        offices = broker_id == seats.leader, broker_id == seats.controller
        return place, own, *offices, len(view.brokers[broker_id].owned), broker_id

    return sorted(chosen, key=rank)
