"""Bundles of a dead broker, which wait for the end of its session and are placed again.

The daemon's is `balancer/planning/orphans.py`: the heaviest first, each on a view that keeps what
was promised before. Those without traffic come last; there it is a lookup that places them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker_ctl.core.cluster.decisions import Assign
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.planning.cycle import CycleRules
from broker_ctl.core.strategies.placement.pipeline import place
from broker_ctl.simulation.replay.record import Cause


@dataclass(frozen=True, slots=True)
class Orphan:
    """A bundle that has lost its broker.

    Attributes:
        former: whose it was.
        from_minute: when it may be placed again: a dead broker's session must end before.
    """

    former: str
    cause: Cause
    from_minute: int


def due_orphans(orphans: Mapping[Bundle, Orphan], minute: int) -> list[Bundle]:
    """Orphans that may be placed now."""
    return [bundle for bundle, orphan in orphans.items() if orphan.from_minute <= minute]


def place_orphans(view: ClusterView, bundles: Iterable[Bundle], rules: CycleRules) -> list[Assign]:
    """Choose owners; bundles without a possible receiver are left out."""
    seen = [view.bundles[bundle] for bundle in bundles]
    assigns: list[Assign] = []
    for one in sorted(seen, key=lambda one: (-one.load.short.throughput, one.bundle)):
        able = view.receivers(rules.placement_rules.report_ttl_s)
        choice = place(view, one.bundle, able, rules.placement, rules.placement_rules)
        if choice.broker_id is None:
            continue
        assigns.append(Assign(one.bundle, choice.broker_id, choice.reason, choice.detail))
        view = view.after(assigns[-1])
    return assigns
