"""What is proposed for the parts of a bundle that was just split."""

from collections.abc import Iterable
from typing import Final

from broker_ctl.core.cluster.decisions import Reason, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle

_WHY: Final = "a split has just made it"


def to_spread(view: ClusterView, parts: Iterable[Bundle]) -> list[Unload]:
    """Each part that has an owner may go; whether it should is for the plan to say."""
    seen = (view.bundles.get(part) for part in sorted(parts))
    return [
        Unload(one.bundle, one.owner, Reason.NEW_PART, _WHY)
        for one in seen
        if one is not None and one.owner is not None
    ]
