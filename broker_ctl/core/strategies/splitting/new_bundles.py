"""Proposes to unload the bundles that a split has just made."""

from collections.abc import Iterable
from typing import Final

from broker_ctl.core.cluster.decisions import Reason, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle

_WHY: Final = "a split has just made it"


def unload_new_bundles(view: ClusterView, parts: Iterable[Bundle]) -> list[Unload]:
    """Propose each part that has an owner; the plan decides whether it moves."""
    seen = (view.bundles.get(part) for part in sorted(parts))
    return [
        Unload(one.bundle, one.owner, Reason.NEW_PART, _WHY)
        for one in seen
        if one is not None and one.owner is not None
    ]
