"""Builds the planner's arrays from a view, and keeps the names behind the numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from broker_ctl.core.cluster.snapshot import in_order
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.batches import batched
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.topic_partitions import TopicPartitions
from broker_ctl.core.rules.balance import BalanceRules
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.balance.limits.hard_limits import broker_columns, bundle_columns
from broker_ctl.core.strategies.balance.memory import FormerBroker
from broker_ctl.core.strategies.balance.problem import Flags, Floats, Indices, Problem
from broker_ctl.core.strategies.balance.resources import Demand, Resources
from broker_ctl.core.strategies.balance.topic_spread import TopicSpread, spread_of
from broker_ctl.core.strategies.placement.pipeline import filter_brokers

_BATCH: Final = 200


@dataclass(frozen=True, slots=True, eq=False)
class PlannerInput:
    """A problem with the ids of its brokers and bundles.

    Attributes:
        brokers: ids, ascending; the planner's numbers count along them.
        bundles: likewise.
    """

    problem: Problem
    brokers: tuple[str, ...]
    bundles: Sequence[BundleView]


@dataclass(frozen=True, slots=True)
class PlannerContext:
    """Inputs of the planner besides the view.

    Attributes:
        demand_of: demand of a bundle; None: the bundle is left out.
        left: former broker of each bundle that moved lately.
        silent_s: age from which a broker's report is ignored.
        excluded: namespaces whose bundles do not move.
        ineligible: brokers that receive nothing because they are slow.
    """

    demand_of: Callable[[Bundle], Demand | None]
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
    kinds = _Kinds(view, numbers, able, context.silent_s)
    rows = _Rows(view, context, rules, numbers, kinds)
    # Among equal bundles the first goes: the view's order must not decide which one that is.
    ordered = in_order(view.bundles.values())
    # An array of all bundles at once would hold up every other thread for tens of milliseconds.
    for batch in batched(ordered, _BATCH):
        rows.add(batch)
    capacities = resources.capacities(view)
    capacity = np.array([capacities[each] for each in brokers], np.float64)
    base = np.array([resources.unlisted(view.brokers[each].load) for each in brokers], np.float64)
    counted = [not view.brokers[each].is_draining for each in brokers]
    reporting = np.isin(brokers, able) if brokers else np.zeros(0, bool)
    held, most = broker_columns([view.brokers[each] for each in brokers], rules.limits)
    problem = Problem(
        demand=_concatenate(rows.demand, np.zeros((0, capacity.shape[1]))),
        capacity=capacity,
        owner=_concatenate(rows.owner, np.zeros(0, np.int32)),
        is_movable=_concatenate(rows.is_movable, np.zeros(0, bool)),
        is_receiving=reporting & ~np.isin(brokers, list(context.ineligible)),
        is_giving=reporting,
        is_counted=np.array(counted, bool),
        base=base,
        kind=_concatenate(rows.kind, np.zeros(0, np.int32)),
        allowed=kinds.table(),
        avoid=_concatenate(rows.avoid, np.zeros(0, np.int32)),
        takes=_concatenate(rows.takes, bundle_columns((), rules.limits)),
        held=held,
        most=most,
        spread=rows.topics.spread(int(np.count_nonzero(counted)), rules.topic_cap),
    )
    return PlannerInput(problem, brokers, rows.bundles)


class _Kinds:
    """Feasible brokers of a bundle: the same for all bundles of a namespace."""

    def __init__(
        self,
        view: ClusterView,
        numbers: Mapping[str, int],
        able: tuple[str, ...],
        silent_s: float,
    ) -> None:
        self._view = view
        self._numbers = numbers
        self._able = able
        self._rules = PlacementRules(report_ttl_s=silent_s)
        self._of: dict[Namespace, int] = {}
        self._rows: list[Flags] = []
        self._known: dict[tuple[str, ...], int] = {}

    def of(self, bundle: Bundle) -> int:
        """The row for a bundle."""
        namespace = bundle.namespace
        if namespace not in self._of:
            self._of[namespace] = self._row(bundle)
        return self._of[namespace]

    def _row(self, bundle: Bundle) -> int:
        grouped = bundle.namespace in self._view.constraints.group_of
        # Where a bundle of a group may go depends on the group's others: placement decides.
        feasible = () if grouped else self._feasible_brokers(bundle)
        if feasible not in self._known:
            row = np.zeros(len(self._numbers), bool)
            row[[self._numbers[each] for each in feasible]] = True
            self._known[feasible] = len(self._rows)
            self._rows.append(row)
        return self._known[feasible]

    def _feasible_brokers(self, bundle: Bundle) -> tuple[str, ...]:
        return filter_brokers(self._view, bundle, self._able, self._rules).feasible

    def table(self) -> Flags:
        """Shape (kinds, brokers)."""
        return np.array(self._rows, bool).reshape(len(self._rows), len(self._numbers))


class _Rows:
    """The columns of a problem, bundle by bundle."""

    def __init__(
        self,
        view: ClusterView,
        context: PlannerContext,
        rules: BalanceRules,
        numbers: Mapping[str, int],
        kinds: _Kinds,
    ) -> None:
        self._view = view
        self._context = context
        self._rules = rules
        self._numbers = numbers
        self._kinds = kinds
        self.bundles: list[BundleView] = []
        self.demand: list[Floats] = []
        self.owner: list[Indices] = []
        self.is_movable: list[Flags] = []
        self.kind: list[Indices] = []
        self.avoid: list[Indices] = []
        self.takes: list[Floats] = []
        self.topics = _Topics(view.constraints.topics)

    def add(self, batch: Sequence[BundleView]) -> None:
        """Append a batch, without bundles that no broker of the view carries."""
        owners = [
            self._numbers.get(self._view.carrier(bundle_view.bundle) or "", -1)
            for bundle_view in batch
        ]
        demands = [self._context.demand_of(bundle_view.bundle) for bundle_view in batch]
        found = [
            (bundle_view, owner, demand)
            for bundle_view, owner, demand in zip(batch, owners, demands, strict=True)
            if owner >= 0 and demand is not None
        ]
        if not found:
            return
        self.bundles += [bundle_view for bundle_view, _, _ in found]
        self.topics.add(bundle_view.bundle for bundle_view, _, _ in found)
        self.owner.append(np.array([owner for _, owner, _ in found], np.int32))
        self.demand.append(np.array([demand for _, _, demand in found], np.float64))
        self.takes.append(
            bundle_columns([bundle_view for bundle_view, _, _ in found], self._rules.limits)
        )
        self.is_movable.append(
            np.array([self._is_free(bundle_view) for bundle_view, _, _ in found], bool)
        )
        self.kind.append(
            np.array([self._kinds.of(bundle_view.bundle) for bundle_view, _, _ in found], np.int32)
        )
        self.avoid.append(
            np.array([self._avoided_broker(bundle_view) for bundle_view, _, _ in found], np.int32)
        )

    def _avoided_broker(self, bundle_view: BundleView) -> int:
        left = self._context.left.get(bundle_view.bundle)
        return -1 if left is None else self._numbers.get(left.broker_id, -1)

    def _is_free(self, bundle_view: BundleView) -> bool:
        view, moved_s = self._view, bundle_view.last_unloaded_s
        is_rested = moved_s is None or view.taken_at_s - moved_s >= self._rules.rest_s
        return (
            is_rested
            and not bundle_view.is_pinned
            and bundle_view.current is not None
            and bundle_view.bundle.namespace not in self._context.excluded
            and not view.is_busy(bundle_view.bundle)
            and view.is_in_ring(bundle_view.bundle)
        )


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


_Column = TypeVar("_Column", Floats, Indices, Flags)


def _concatenate(parts: Sequence[_Column], none: _Column) -> _Column:
    return np.concatenate(parts) if parts else none
