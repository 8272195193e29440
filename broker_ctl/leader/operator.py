"""Moves, splits and merges by order of an operator.

A pause does not bind them, and budgets only bind what moves to a better place after a split.
"""

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.decisions import Action, Assign, Merge, Reason, Split, Transfer
from broker_ctl.core.footprint import NO_FOOTPRINT, Footprint
from broker_ctl.core.names import Namespace
from broker_ctl.core.splitting.special import special_bundle
from broker_ctl.errors import BundleGone, NoBroker, PeerRefused
from broker_ctl.leader.executor import NOTHING_TO_SPLIT
from broker_ctl.leader.leading import Leading
from broker_ctl.leader.new_parts import parts_of, spread_parts
from broker_ctl.leader.transfer import newest_owner
from broker_ctl.ports import Reply

_WHY = "by order of an operator"


async def move_by_order(leading: Leading, bundle: Bundle, destination: str) -> Reply:
    """Transfer a bundle; one that nobody owns is taken by the destination.

    The answer names who serves it in the end: another one, where the destination died on the way.

    Raises:
        NoBroker: the destination is not alive, or on its way down.
        OwnershipError, PeerError, StoreError: why it was not moved.
        Fenced, AuthorityLost: this broker does not lead any more.
    """
    parts = leading.parts
    await _check_in_ring(leading, bundle)
    if not parts.can_receive(destination):
        raise NoBroker(f"{destination} is not alive, or is draining")
    owner = await newest_owner(parts.store, bundle)
    source = None if owner is None else owner.broker_id
    if source != destination:
        await leading.hands.carry_out(_decision(leading, bundle, source, destination))
        owner = await newest_owner(parts.store, bundle)
    receiver = None if owner is None else owner.broker_id
    return {"bundle": str(bundle), "from": source, "to": receiver}


def _decision(leading: Leading, bundle: Bundle, source: str | None, destination: str) -> Action:
    if source is None:
        return Assign(bundle, destination, Reason.ADMIN, _WHY)
    view = leading.survey.latest
    seen = view.bundles.get(bundle) if view is not None else None

    def expected(broker_id: str) -> Footprint:
        broker = view.brokers.get(broker_id) if view is not None else None
        return NO_FOOTPRINT if broker is None else broker.expected

    return Transfer(
        bundle=bundle,
        source=source,
        destination=destination,
        reason=Reason.ADMIN,
        detail=_WHY,
        footprint=NO_FOOTPRINT if seen is None else seen.footprint,
        source_before=expected(source),
        destination_before=expected(destination),
    )


async def special_by_order(leading: Leading, namespace: Namespace, name: str) -> Bundle:
    """The bundle that an operator names by what it is, as of now.

    Raises:
        BundleGone: nothing was reported of any bundle of the namespace.
        StoreError: the view could not be taken.
    """
    return special_bundle(await leading.survey.take(), namespace, name)


async def split_by_order(
    leading: Leading,
    bundle: Bundle,
    algorithm: str,
    positions: tuple[int, ...],
    *,
    is_unloading: bool,
) -> Reply:
    """Split a bundle, which is placed first where nobody owns it; no children: nothing to split.

    Raises:
        NoBroker, OwnershipError, PeerError, StoreError: why it was not split.
        Fenced, AuthorityLost: this broker does not lead any more.
    """
    await _check_in_ring(leading, bundle)
    owner = await _owner_or_assigned(leading, bundle)
    split = Split(bundle, owner, algorithm, positions, Reason.ADMIN, _WHY)
    try:
        reply = await leading.hands.carry_out(split)
    except PeerRefused as error:
        if error.kind != NOTHING_TO_SPLIT:
            raise
        return {"bundle": str(bundle), "children": []}
    if is_unloading:
        try:
            await spread_parts(leading, parts_of({split: reply}))
        except ExceptionGroup as group:
            # All of them say that another one leads, who takes over what was begun.
            raise group.exceptions[0] from None
    return {"bundle": str(bundle), "children": reply["children"]}


async def merge_by_order(leading: Leading, left: Bundle, right: Bundle) -> Reply:
    """Merge two neighbours at the owner of one of them; the other one is moved there first.

    Raises:
        InvalidName: ``right`` does not begin where ``left`` ends.
        NoBroker, OwnershipError, PeerError, StoreError: why they were not merged.
        Fenced, AuthorityLost: this broker does not lead any more.
    """
    left.joined(right)
    for bundle in (left, right):
        await _check_in_ring(leading, bundle)
    home = await _common_home(leading, left, right)
    for bundle in (left, right):
        await move_by_order(leading, bundle, home)
    merge = Merge(left, right, home, Reason.ADMIN, _WHY)
    reply = await leading.hands.carry_out(merge)
    return {"bundle": reply["bundle"], "owner": home}


async def _common_home(leading: Leading, left: Bundle, right: Bundle) -> str:
    """Where the lower one is, unless only the broker of the upper one can receive."""
    nodes = [await newest_owner(leading.parts.store, bundle) for bundle in (left, right)]
    owners = [node.broker_id for node in nodes if node is not None]
    able = [broker_id for broker_id in owners if leading.parts.can_receive(broker_id)]
    return able[0] if able else await _owner_or_assigned(leading, left)


async def _owner_or_assigned(leading: Leading, bundle: Bundle) -> str:
    owner = await newest_owner(leading.parts.store, bundle)
    if owner is not None:
        return owner.broker_id
    choice = await leading.placements.place(bundle)
    assert choice.broker_id is not None
    await leading.hands.carry_out(Assign(bundle, choice.broker_id, Reason.ADMIN, _WHY))
    return choice.broker_id


async def _check_in_ring(leading: Leading, bundle: Bundle) -> None:
    if bundle not in await leading.parts.ring_of(bundle.namespace):
        raise BundleGone(f"{bundle} is no bundle of its namespace")
