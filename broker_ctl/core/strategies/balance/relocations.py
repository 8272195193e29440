"""The moves of a plan from the daily profile, as decisions on a view."""

from collections.abc import Mapping

from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle

_WHY = "by the daily profile"


def relocations(view: ClusterView, receivers: Mapping[Bundle, str]) -> tuple[Transfer, ...]:
    """Transfers of what is not where it should be, in the order of ``receivers``.

    A bundle that the view does not know, or that has no owner in the view, is left out,
    and so is one whose receiver is not there.
    """
    return tuple(
        Transfer(
            bundle=bundle,
            source=source,
            destination=destination,
            reason=Reason.PROFILE,
            detail=_WHY,
            load_vector=view.bundles[bundle].load_vector,
            source_before=view.brokers[source].expected,
            destination_before=view.brokers[destination].expected,
        )
        for bundle, destination in receivers.items()
        if bundle in view.bundles
        and (source := view.bundles[bundle].owner or "") in view.brokers
        and destination in view.brokers
        and source != destination
    )
