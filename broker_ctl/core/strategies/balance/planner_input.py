"""Builds the planner's arrays from a view, and keeps the names behind the numbers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.snapshot import in_order
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.names import Bundle, Namespace, Ring, TopicPartitions
from broker_ctl.core.rules.leader_rules import BalanceRules
from broker_ctl.core.strategies.balance.demands import Resources
from broker_ctl.core.strategies.balance.limits import broker_columns, bundle_columns
from broker_ctl.core.strategies.balance.memory import FormerBroker
from broker_ctl.core.strategies.balance.problem import (
    BalanceProblem,
    Flags,
    Indices,
    Kinds,
    TopicSpread,
    sharing_of,
    spread_of,
)


@dataclass(frozen=True, slots=True, eq=False)
class PlannerInput:
    """A problem with the ids of its brokers and bundles.

    Attributes:
        brokers: ids, ascending; the planner's numbers count along them.
        bundles: likewise.
    """

    problem: BalanceProblem
    brokers: tuple[str, ...]
    bundles: Sequence[BundleView]


@dataclass(frozen=True, slots=True)
class PlannerContext:
    """Inputs of the planner besides the view.

    Attributes:
        demands_of: demand of each bundle, shape (bundles, resources); without one (NaN) it is left
            out.
        left: former broker of each bundle that moved lately.
        silent_s: age from which a broker's report is ignored.
        excluded: namespaces whose bundles do not move.
        ineligible: brokers that receive nothing because they are slow.
    """

    demands_of: Callable[[Sequence[Bundle]], Floats]
    left: Mapping[Bundle, FormerBroker]
    silent_s: float
    excluded: frozenset[Namespace] = frozenset()
    ineligible: frozenset[str] = frozenset()


def build_input(view: ClusterView, context: PlannerContext, rules: BalanceRules) -> PlannerInput:
    """Build the planner's input from a view."""
    brokers = tuple(sorted(view.brokers))
    numbers = {broker_id: number for number, broker_id in enumerate(brokers)}
    resources = Resources.of(view, rules.weights)
    able = view.receivers(context.silent_s)
    # Among equal bundles the first goes: the view's order must not decide which one that is.
    ordered = in_order(view.bundles.values())
    names = [each.bundle for each in ordered]
    demand = context.demands_of(names)
    owner = _each((numbers.get(view.carrier(each) or "", -1) for each in names), len(names))
    # Without bundles that no broker of the view carries.
    kept: Flags = (owner >= 0) & ~np.isnan(demand).any(axis=1)
    if not kept.all():
        ordered = list(compress(ordered, kept.tolist()))
    rows = Rows(view, context, numbers, ordered, rules.rest_s)
    kinds = Kinds(view, numbers, able, context.silent_s)
    topics = _Topics(view.constraints.topics)
    topics.add(each.bundle for each in ordered)
    capacities = resources.capacities(view)
    capacity = np.array([capacities[each] for each in brokers], np.float64)
    base = np.array([resources.unlisted(view.brokers[each].load) for each in brokers], np.float64)
    counted = np.array([not view.brokers[each].is_draining for each in brokers], bool)
    reporting = np.isin(brokers, able) if brokers else np.zeros(0, bool)
    held, most = broker_columns([view.brokers[each] for each in brokers], rules.limits)
    kind = _each((kinds.of(each.bundle) for each in ordered), len(ordered))
    allowed = kinds.table()
    problem = BalanceProblem(
        demand=demand[kept],
        capacity=capacity,
        owner=owner[kept],
        is_movable=rows.is_movable(),
        is_receiving=reporting & ~np.isin(brokers, list(context.ineligible)),
        is_giving=reporting,
        is_counted=counted,
        base=base,
        kind=kind,
        allowed=allowed,
        sharing=sharing_of(allowed, counted, reporting),
        avoid=rows.avoid(),
        takes=bundle_columns(ordered, rules.limits),
        held=held,
        most=most,
        spread=topics.spread(int(np.count_nonzero(counted)), rules.topic_cap),
    )
    return PlannerInput(problem, brokers, ordered)


@dataclass(frozen=True, slots=True)
class Rows:
    """What the view says of each bundle."""

    view: ClusterView
    context: PlannerContext
    numbers: Mapping[str, int]
    bundles: Sequence[BundleView]
    rest_s: float

    def is_movable(self, *, is_waiting: bool = True) -> Flags:
        """Whether each may be moved now; without ``is_waiting`` also what is on its way."""
        return np.fromiter(self._free(is_waiting=is_waiting), bool, len(self.bundles))

    def _free(self, *, is_waiting: bool) -> Iterator[bool]:
        view, rings = self.view, self.view.rings
        is_calm = not is_waiting or (not view.moves and not view.splitting)
        namespace: Namespace | None = None
        ring: Ring | None = None
        for bundle_view in self.bundles:
            bundle = bundle_view.bundle
            # They come by namespace: a look for the ring of each bundle takes longer than the rest.
            if bundle.namespace is not namespace:
                namespace = bundle.namespace
                is_fixed = bundle_view.is_pinned or namespace in self.context.excluded
                ring = None if is_fixed else rings.get(namespace)
            yield (
                ring is not None
                and (bundle_view.current is not None or not is_waiting)
                and self._is_rested(bundle_view)
                and (is_calm or not view.is_busy(bundle))
                and bundle in ring
            )

    def _is_rested(self, bundle_view: BundleView) -> bool:
        moved_s = bundle_view.last_unloaded_s
        return moved_s is None or self.view.taken_at_s - moved_s >= self.rest_s

    def avoid(self) -> Indices:
        """The broker that each must not come back to, or -1."""
        found = np.full(len(self.bundles), -1, np.int32)
        left = self.context.left
        if left:
            for row, bundle_view in enumerate(self.bundles):
                former = left.get(bundle_view.bundle)
                if former is not None:
                    found[row] = self.numbers.get(former.broker_id, -1)
        return found


class _Topics:
    """The partitions of topics in each bundle, with numbers in the place of names."""

    def __init__(self, topics: TopicPartitions) -> None:
        self._topics = topics
        self._numbers: dict[str, int] = {}
        self._rows: list[dict[int, int]] = []

    def add(self, bundles: Iterable[Bundle]) -> None:
        """Append a batch."""
        if self._topics:
            self._rows += [
                {self._number(topic): count for topic, count in self._topics.of(bundle).items()}
                for bundle in bundles
            ]

    def _number(self, topic: str) -> int:
        return self._numbers.setdefault(topic, len(self._numbers))

    def spread(self, brokers: int, cap: int) -> TopicSpread:
        """The planner's arrays."""
        return spread_of(self._rows, brokers, len(self._numbers), cap)


def _each(numbers: Iterable[int], count: int) -> Indices:
    # Not of a list: that would hold up every other thread for milliseconds.
    return np.fromiter(numbers, np.int32, count)
