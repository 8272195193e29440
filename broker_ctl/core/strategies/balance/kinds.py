"""Which brokers may carry a bundle: bundles of the same kind may live on the same brokers."""

from collections.abc import Mapping, Sequence

import numpy as np

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.balance.problem import Flags
from broker_ctl.core.strategies.placement.pipeline import filter_brokers

# Of each broker: the brokers that may carry each kind of bundle that it carries.
Peers = Mapping[str, set[frozenset[str]]]


class Kinds:
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
        # The last one: bundles come by namespace.
        self._namespace: Namespace | None = None
        self._number = -1
        self._of: dict[Namespace, int] = {}
        self._rows: list[Flags] = []
        self._known: dict[tuple[str, ...], int] = {}

    def of(self, bundle: Bundle) -> int:
        """The row for a bundle."""
        namespace = bundle.namespace
        if namespace is not self._namespace:
            if namespace not in self._of:
                self._of[namespace] = self._row(bundle)
            self._namespace, self._number = namespace, self._of[namespace]
        return self._number

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


def sharing_of(allowed: Flags, counted: Flags, reporting: Flags) -> Flags:
    """The brokers over which the mean of each kind is taken, shape (kinds, brokers).

    A broker that may not carry a bundle does not make room for it. One without a recent report
    only receives nothing for now. A kind that may go nowhere is compared with all brokers.
    """
    sharing: Flags = counted & (allowed | ~reporting)
    sharing[~sharing.any(axis=1)] = counted
    return sharing


def peers_of(
    view: ClusterView, homes: Mapping[Bundle, str], counted: Sequence[str], silent_s: float
) -> Peers:
    """The groups of each broker; of none where no policy divides the cluster."""
    if not view.constraints.isolation:
        return {}
    able, rules = view.receivers(silent_s), PlacementRules(report_ttl_s=silent_s)
    # A broker without a recent report only receives nothing for now.
    silent = frozenset(counted) - set(able)
    group_of: dict[Namespace, frozenset[str]] = {}
    found: dict[str, set[frozenset[str]]] = {}
    for bundle, broker_id in homes.items():
        namespace = bundle.namespace
        if namespace not in group_of:
            grouped = namespace in view.constraints.group_of
            allowed = () if grouped else filter_brokers(view, bundle, able, rules).feasible
            group = (silent | set(allowed)) & set(counted)
            group_of[namespace] = frozenset(group or counted)
        if broker_id in group_of[namespace]:
            found.setdefault(broker_id, set()).add(group_of[namespace])
    return found
