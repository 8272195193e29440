"""Bundles on brokers that an isolation policy does not allow, and the moves that would mend that.

A policy judges a bundle when it is placed. A policy that is set later, primaries that come back
while secondaries serve, and an owner that took a bundle before it knew the policy leave bundles
where they would not be placed today (docs: pulsar-isolation).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker_ctl.core.cluster.decisions import Reason, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import isolation


@dataclass(frozen=True, slots=True)
class MisplacedBundle:
    """A bundle whose owner a policy does not allow.

    Attributes:
        why: what the policy says of the owner, without the owner's name.
    """

    bundle: Bundle
    broker_id: str
    why: str

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"bundle": str(self.bundle), "owner": self.broker_id, "why": self.why}


def misplaced_bundles(view: ClusterView, rules: PlacementRules) -> tuple[MisplacedBundle, ...]:
    """The misplaced bundles of all live owners, the heaviest first; pinned ones never are."""
    verdicts: dict[tuple[Namespace, str], str] = {}
    found = []
    for broker_id, broker in view.brokers.items():
        for bundle in broker.owned:
            key = bundle.namespace, broker_id
            # Policies judge namespaces: thousands of bundles may have the same one.
            if key not in verdicts:
                verdicts[key] = _verdict(view, bundle, broker_id, rules)
            if verdicts[key] and not view.bundles[bundle].is_pinned:
                found.append(MisplacedBundle(bundle, broker_id, verdicts[key]))
    found.sort(key=lambda one: (-_throughput(view, one.bundle), one.bundle))
    return tuple(found)


def healing_proposals(view: ClusterView, misplaced: Sequence[MisplacedBundle]) -> list[Unload]:
    """Unload misplaced bundles that are not moving already; the plan chooses their receivers."""
    return [
        Unload(one.bundle, one.broker_id, Reason.ISOLATION, f"{one.broker_id} {one.why}")
        for one in misplaced
        if not view.is_busy(one.bundle)
    ]


def _verdict(view: ClusterView, bundle: Bundle, broker_id: str, rules: PlacementRules) -> str:
    """What a policy says against the owner; empty: nothing."""
    rejection = isolation(view, bundle, (broker_id,), rules).rejected.get(broker_id)
    # The kind of topics is not a policy's: a bundle may have both kinds.
    if rejection is None or rejection.reason is not Reason.ISOLATION:
        return ""
    return rejection.words


def _throughput(view: ClusterView, bundle: Bundle) -> float:
    return view.bundles[bundle].load_vector.throughput_bytes
