"""A move by order of an operator. Budgets do not bind it, and neither does a pause."""

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.decisions import Action, Assign, Reason, Transfer
from broker_ctl.core.footprint import NO_FOOTPRINT, Footprint
from broker_ctl.errors import BundleGone, NoBroker
from broker_ctl.leader.leading import Leading
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
    if bundle not in await parts.ring_of(bundle.namespace):
        raise BundleGone(f"{bundle} is no bundle of its namespace")
    if not parts.can_receive(destination):
        raise NoBroker(f"{destination} is not alive, or is draining")
    owner = await newest_owner(parts.store, bundle)
    source = None if owner is None else owner.broker_id
    if source != destination:
        await leading.executor.carry_out(_decision(leading, bundle, source, destination))
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
