"""Where the bundles go of brokers that are about to restart, and what they get back.

Bundles go to brokers that will not restart any more in the same rollout, as long as those do not
carry more than the others would: so each moves about once. Only those of the first broker have no
such place, unless some brokers are left out.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.core.cluster.decisions import Reason, Transfer, Unload
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.planning.drain_forecast import drained_view
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.pipeline import filter_brokers

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
