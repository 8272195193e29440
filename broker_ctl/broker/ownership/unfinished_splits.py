"""Splits and merges that were committed as the session ended, before the data plane knew of them.

The store has the new bundles, but the old ones are still loaded. Renewing would fail for the new
bundles, and their clients would have to reconnect. So the data plane splits or merges first, under
the tokens that it has: this grants no authority, and open topics stay open.
"""

import logging
from collections.abc import Mapping

from broker_ctl.broker.ownership.held_bundles import OwnedBundles
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneError

log = logging.getLogger(__name__)


async def finish_ring_changes(
    dataplane: DataPlane, owned_bundles: OwnedBundles, loaded: Mapping[Bundle, int]
) -> None:
    """Split or merge the ``loaded`` bundles into those that are to be re-acquired."""
    merged: dict[Bundle, list[Bundle]] = {}
    for bundle, token in loaded.items():
        if bundle in owned_bundles.held:
            continue
        near = list(owned_bundles.overlapping(bundle))
        if any(held.state is not BundleState.RECLAIMING for held in near):
            continue
        pieces = sorted(held.bundle for held in near)
        if len(pieces) == 1:
            merged.setdefault(pieces[0], []).append(bundle)
        elif _is_cut_into(bundle, pieces):
            await _split(dataplane, bundle, dict.fromkeys(pieces, token))
    for parent, children in merged.items():
        children.sort()
        if len(children) == 2 and _is_cut_into(parent, children):
            await _merge(dataplane, (children[0], children[1]), parent, loaded)


def _is_cut_into(whole: Bundle, pieces: list[Bundle]) -> bool:
    """Return whether the pieces, sorted and without overlap, fill the whole exactly."""
    inside = tuple(piece.range.low for piece in pieces[1:])
    is_inside = all(whole.range.low < low < whole.range.high for low in inside)
    return is_inside and whole.cut(inside) == tuple(pieces)


async def _split(dataplane: DataPlane, parent: Bundle, children: Mapping[Bundle, int]) -> None:
    log.info("%s is still loaded although its split was committed: splitting it", parent)
    try:
        await dataplane.split(parent, children)
    except DataPlaneError as error:
        # Each child is then renewed, loaded, or given up.
        log.warning("cannot split %s: %s; its children are loaded one by one", parent, error)


async def _merge(
    dataplane: DataPlane,
    children: tuple[Bundle, Bundle],
    parent: Bundle,
    loaded: Mapping[Bundle, int],
) -> None:
    log.info("the parts of %s are still loaded although their merge was committed: merging", parent)
    try:
        await dataplane.merge(children, parent, max(loaded[child] for child in children))
    except DataPlaneError as error:
        log.warning("cannot merge into %s: %s; loading it instead", parent, error)
