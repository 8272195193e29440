"""Heartbeat and SLA namespaces are of one broker each (docs: pulsar-topic-names)."""

from collections.abc import Sequence
from typing import Final

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection

_SLA_TENANT: Final = "sla-monitor"


def home_of(namespace: Namespace) -> str | None:
    """The broker that a pinned namespace is of; None where it is not pinned."""
    return namespace.name if namespace.is_pinned else None


def pinned(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Only its broker. While that is away, anybody may have an SLA namespace, nobody a heartbeat.

    A heartbeat that another broker answers would say that its own broker is well.
    """
    del view, rules
    home = home_of(bundle.namespace)
    is_free = home is None or (bundle.namespace.tenant == _SLA_TENANT and home not in candidates)
    why = Rejection(Reason.PINNED, f"is not {home}, which it belongs to")
    return FilterResult.by(
        candidates, lambda broker_id: None if is_free or broker_id == home else why
    )
