"""A split or merge that was committed as the session ended, unheard of by the data plane.

What is held has changed, and what is loaded has not: renewed as it is, no child would be found, and
its clients would have to come back. The data plane is told first, under the tokens that it has: no
right comes of it, and open topics stay open.
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
    """Split and merge what is ``loaded`` into what is to be taken again."""
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
    """Whether the pieces, which are sorted and do not overlap, fill it exactly."""
    inside = tuple(piece.range.low for piece in pieces[1:])
    is_inside = all(whole.range.low < low < whole.range.high for low in inside)
    return is_inside and whole.cut(inside) == tuple(pieces)


async def _split(dataplane: DataPlane, parent: Bundle, children: Mapping[Bundle, int]) -> None:
    log.info("%s is still loaded although its split was committed: splitting it", parent)
    try:
        await dataplane.split(parent, children)
    except DataPlaneError as error:
        # Each child is renewed below, or loaded, or given up.
        log.warning("splitting %s: %s", parent, error)


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
        log.warning("merging %s: %s", parent, error)
