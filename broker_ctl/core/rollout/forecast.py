"""What a rollout would do: its order, its pace, and where bundles go and come back from."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Reason, Transfer, Unload
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.planning.drain_forecast import drained_view
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.strategies.placement.pipeline import filter_brokers
from broker_ctl.errors import OrderConflict

# In which order the brokers of a rollout restart.
#
# One failure domain after the other, so that a fault of the new version never reaches two of them
# at once. The canary is first. The controller of the partitions and the leader of the bundles are
# last: each restart of a holder is an election (docs: pulsar-rolling-upgrade).


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


# Where the bundles go of brokers that are about to restart, and what they get back.
#
# Bundles go to brokers that will not restart any more in the same rollout, as long as those do
# not carry more than the others would: so each moves about once. Only those of the first broker
# have no such place, unless some brokers are left out.


# A broker that is preferred may carry this much more than the mean of those that are up.
_SLACK: Final = 1.1
# Below this mean usage the number of bundles counts: usage is noise then.
_LEAST_USAGE: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Scale:
    """How full brokers are in comparison: 1.0 is the mean of those that are up.

    Attributes:
        usage_ratio: mean usage, 1.0 is full.
        bundles: mean number of bundles of a broker of the mean size.
    """

    usage_ratio: float
    bundles: float

    @classmethod
    def of(cls, view: ClusterView, up: Collection[str]) -> Self:
        sizes = sum(view.brokers[each].size_ratio for each in up)
        load = sum(
            broker.expected.usage_ratio * broker.size_ratio for broker in view.brokers.values()
        )
        bundles = sum(map(len, (broker.owned for broker in view.brokers.values())))
        return cls(load / sizes if sizes else 0.0, bundles / sizes if sizes else 0.0)

    def level(self, broker: BrokerView) -> float:
        """How full a broker is."""
        if self.usage_ratio >= _LEAST_USAGE:
            return broker.expected.usage_ratio / self.usage_ratio
        return len(broker.owned) / broker.size_ratio / self.bundles if self.bundles else 0.0

    def weight(self, bundle: BundleView, broker: BrokerView) -> float:
        """What a bundle adds to the level of a broker."""
        if self.usage_ratio >= _LEAST_USAGE:
            return bundle.load_vector.usage_on(broker.size_ratio) / self.usage_ratio
        return 1 / broker.size_ratio / self.bundles if self.bundles else 0.0


def evacuate(
    view: ClusterView,
    leaving: Collection[str],
    preferred: Collection[str],
    rules: PlacementRules,
) -> tuple[Transfer | Unload, ...]:
    """Moves of all bundles of brokers that restart next, the heaviest first.

    Args:
        view: the cluster; bundles in flight are left out.
        leaving: brokers that restart.
        preferred: brokers that will not restart any more in this rollout.
        rules: whom the policies admit.
    """
    now = drained_view(view, leaving)
    able = now.receivers(rules.report_ttl_s)
    scale = _Scale.of(now, able)
    moves: list[Transfer | Unload] = []
    for bundle_view, source in _held(now, leaving):
        admitted = filter_brokers(now, bundle_view.bundle, able, rules).feasible
        levels = {
            each: scale.level(now.brokers[each]) + scale.weight(bundle_view, now.brokers[each])
            for each in admitted
        }
        settled = {
            each: level
            for each, level in levels.items()
            if each in preferred
            and level <= max(_SLACK, 1 + scale.weight(bundle_view, now.brokers[each]))
        }
        choice = settled or levels
        if not choice:
            # Planned like any other, so that the reason why it stays is the plan's.
            moves.append(Unload(bundle_view.bundle, source, Reason.DRAIN, f"{source} restarts"))
            continue
        destination = min(choice, key=lambda each: (choice[each], each))
        moves.append(_move(now, bundle_view, source, destination))
        now = now.after(moves[-1])
    return tuple(moves)


def give_back(
    view: ClusterView, receivers: Collection[str], rules: PlacementRules
) -> tuple[Transfer, ...]:
    """Moves that fill the brokers that restarted last, with as few bundles as possible."""
    now, able = view, view.receivers(rules.report_ttl_s)
    wanted = [each for each in receivers if each in able]
    scale = _Scale.of(now, able)
    moves: list[Transfer] = []
    for receiver in wanted:
        while (move := _gift(now, receiver, set(able) - set(wanted), scale, rules)) is not None:
            moves.append(move)
            now = now.after(move)
    return tuple(moves)


def _gift(
    now: ClusterView, receiver: str, givers: set[str], scale: _Scale, rules: PlacementRules
) -> Transfer | None:
    """The move that fills the receiver best; None: it has its share."""
    room = 1.0 - scale.level(now.brokers[receiver])
    for giver in sorted(givers, key=lambda each: (-scale.level(now.brokers[each]), each)):
        excess = scale.level(now.brokers[giver]) - scale.level(now.brokers[receiver])
        for bundle_view, source in _held(now, (giver,)):
            weight = scale.weight(bundle_view, now.brokers[receiver])
            # Half of the difference: more would only carry the load to the other side.
            fits = 0 < weight <= min(room, excess / 2) + 1e-9
            if fits and filter_brokers(now, bundle_view.bundle, (receiver,), rules).feasible:
                return _move(now, bundle_view, source, receiver)
    return None


def _held(now: ClusterView, brokers: Iterable[str]) -> list[tuple[BundleView, str]]:
    found = [
        (bundle_view, broker_id)
        for broker_id in brokers
        if broker_id in now.brokers
        for bundle in now.brokers[broker_id].owned
        if not now.is_busy(bundle) and not (bundle_view := now.bundles[bundle]).is_pinned
    ]
    found.sort(key=lambda one: (-one[0].load_vector.throughput_bytes, one[0].bundle))
    return found


def _move(now: ClusterView, bundle: BundleView, source: str, destination: str) -> Transfer:
    return Transfer(
        bundle=bundle.bundle,
        source=source,
        destination=destination,
        reason=Reason.DRAIN,
        detail=f"{source} restarts",
        source_before=now.brokers[source].expected,
        destination_before=now.brokers[destination].expected,
        load_vector=bundle.load_vector,
    )


# What a rollout would do: where the bundles of each broker go and come back from.
#
# The restarts are played through on the view, with the rules that carry them out. Whether the rest
# can carry the load is known before the first broker stops.


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


# How many bundles leave a broker at once: as many as their interruption allows.
#
# The measure is how long the slowest moves of a group take, since a topic is unserved for a part
# of its move. Additive increase and multiplicative decrease, as congestion windows do.


_TARGET_S: Final = 0.4
_MOST: Final = 16


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of drains, those of a rollout among them.

    Attributes:
        moves: moves in flight from one broker.
        least: below this it never falls: the limit of any drain.
    """

    moves: int
    least: int

    @classmethod
    def of(cls, least: int) -> Self:
        """The first pace."""
        return cls(least, least)

    def after(self, moved: int, took_s: float) -> Self:
        """The pace after a group of moves that took this long together."""
        if took_s > _TARGET_S:
            return replace(self, moves=max(self.least, self.moves // 2))
        if moved >= self.moves:
            return replace(self, moves=max(self.least, min(_MOST, self.moves + self.least)))
        return self
