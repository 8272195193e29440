"""Moves, splits and merges requested by an operator, in the scope of the leader's term."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.execution.executor import NOTHING_TO_SPLIT
from broker_ctl.balancer.execution.transfer import read_owner
from broker_ctl.balancer.planning.cycle import children_of_splits, spread_children
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Reason, Split, Transfer
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.load import NO_LOAD, LoadVector
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.strategies.merging import split_again
from broker_ctl.core.strategies.splitting.candidates import special_bundle
from broker_ctl.errors import BundleGone, NoBroker, OrderConflict, PeerRefused

# How a request of an operator runs: in the scope of the leader's term.


_T = TypeVar("_T")


class RunInTerm(Protocol):
    """Runs work in the scope of the term; see `LoadBalancer`."""

    def __call__(
        self, work: Callable[[LeaderTerm], Coroutine[Any, Any, _T]], name: str
    ) -> Coroutine[Any, Any, _T]:
        """The result of the work, which ends only with the term."""
        ...


# Moves, splits and merges requested by an operator.
#
# A pause does not apply to them, and budgets only to moves to better places after a split.


def _why(who: str) -> str:
    return f"by order of {who}" if who else "by order of an operator"


async def manual_move(
    term: LeaderTerm,
    bundle: Bundle,
    destination: str,
    who: str = "",
    *,
    is_dry_run: bool = False,
) -> Reply:
    """Transfer a bundle; the destination acquires one without an owner.

    The reply names the broker that serves it in the end: another one if the destination died
    meanwhile.

    Raises:
        NoBroker: the destination is not alive, or it is stopping.
        OrderConflict: it is drained.
        OwnershipError, PeerError, StoreError: why it was not moved.
        Fenced, AuthorityLost: this broker does not lead any more.
    """
    dependencies = term.dependencies
    await _check_in_ring(term, bundle)
    owner = await read_owner(dependencies.store, bundle)
    source = None if owner is None else owner.broker_id
    if source == destination:
        return {"bundle": str(bundle), "from": source, "to": source}
    _check_receiver(dependencies, destination)
    if is_dry_run:
        return {"bundle": str(bundle), "from": source, "to": destination}
    await term.executor.execute(_decision(term, bundle, source, destination, _why(who)))
    owner = await read_owner(dependencies.store, bundle)
    receiver = None if owner is None else owner.broker_id
    return {"bundle": str(bundle), "from": source, "to": receiver}


def _check_receiver(dependencies: BalancerDependencies, broker_id: str) -> None:
    """Raise the error for the broker's state: the remedies differ.

    Raises:
        OrderConflict: it is drained.
        NoBroker: it is not alive, or is stopping.
    """
    if dependencies.registry.peer(broker_id) is None:
        raise NoBroker(f"{broker_id} is not alive")
    if broker_id in dependencies.directives.drains:
        raise OrderConflict(f"{broker_id} is drained: undrain it before it can receive anything")
    if not dependencies.can_receive(broker_id):
        raise NoBroker(f"{broker_id} is shutting down")


def _decision(
    term: LeaderTerm, bundle: Bundle, source: str | None, destination: str, why: str
) -> Action:
    if source is None:
        return Assign(bundle, destination, Reason.ADMIN, why)
    view = term.snapshot_builder.latest
    bundle_view = view.bundles.get(bundle) if view is not None else None

    def expected(broker_id: str) -> LoadVector:
        broker = view.brokers.get(broker_id) if view is not None else None
        return NO_LOAD if broker is None else broker.expected

    return Transfer(
        bundle=bundle,
        source=source,
        destination=destination,
        reason=Reason.ADMIN,
        detail=why,
        load_vector=NO_LOAD if bundle_view is None else bundle_view.load_vector,
        source_before=expected(source),
        destination_before=expected(destination),
    )


async def find_special_bundle(term: LeaderTerm, namespace: Namespace, name: str) -> Bundle:
    """Find the bundle that is now the largest or the hottest of a namespace.

    Raises:
        BundleGone: no bundle of the namespace was reported.
        StoreError: the view could not be taken.
    """
    return special_bundle(await term.snapshot_builder.build(), namespace, name)


async def manual_split(
    term: LeaderTerm,
    bundle: Bundle,
    algorithm: str,
    positions: tuple[int, ...],
    who: str = "",
    *,
    is_unloading: bool,
) -> Reply:
    """Split a bundle, placing it first if it has no owner; no children: nothing to split.

    Raises:
        NoBroker, OwnershipError, PeerError, StoreError: why it was not split.
        Fenced, AuthorityLost: this broker does not lead any more.
    """
    await _check_in_ring(term, bundle)
    owner = await _owner_or_assigned(term, bundle, _why(who))
    split = Split(bundle, owner, algorithm, positions, Reason.ADMIN, _why(who))
    try:
        reply = await term.executor.execute(split)
    except PeerRefused as error:
        if error.kind != NOTHING_TO_SPLIT:
            raise
        return {"bundle": str(bundle), "children": []}
    if is_unloading:
        try:
            await spread_children(term, children_of_splits({split: reply}))
        except ExceptionGroup as group:
            # Each of them means that another broker leads and takes over.
            raise group.exceptions[0] from None
    return {"bundle": str(bundle), "children": reply["children"]}


async def manual_merge(
    term: LeaderTerm, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
) -> Reply:
    """Merge two adjacent bundles at the owner of one of them, after moving the other there.

    Raises:
        InvalidName: ``right`` does not begin where ``left`` ends.
        NoBroker, OwnershipError, PeerError, StoreError: why they were not merged.
        Fenced, AuthorityLost: this broker does not lead any more.
    """
    left.joined(right)
    for bundle in (left, right):
        await _check_in_ring(term, bundle)
    if is_dry_run:
        able, owners = await _owners(term, left, right)
        # If neither has an owner, the leader would place one first.
        return {
            "bundle": str(left.joined(right)),
            "owner": next(iter((*able, *owners)), None),
            "note": _split_again(term, left, right),
        }
    home = await _common_home(term, left, right, _why(who))
    for bundle in (left, right):
        await manual_move(term, bundle, home, who)
    merge = Merge(left, right, home, Reason.ADMIN, _why(who))
    reply = await term.executor.execute(merge)
    return {"bundle": reply["bundle"], "owner": home}


def _split_again(term: LeaderTerm, left: Bundle, right: Bundle) -> str:
    """What an operator should know before a merge: that it would not last."""
    view, rules = term.snapshot_builder.latest, term.dependencies.rules().splitting
    return "" if view is None or rules is None else split_again(view, rules, left, right)


async def _common_home(term: LeaderTerm, left: Bundle, right: Bundle, why: str) -> str:
    """The owner of the lower bundle, unless only that of the upper one can receive."""
    able, _ = await _owners(term, left, right)
    return able[0] if able else await _owner_or_assigned(term, left, why)


async def _owners(term: LeaderTerm, *bundles: Bundle) -> tuple[list[str], list[str]]:
    """The owners that can receive, and all owners."""
    nodes = [await read_owner(term.dependencies.store, bundle) for bundle in bundles]
    owners = [node.broker_id for node in nodes if node is not None]
    return [each for each in owners if term.dependencies.can_receive(each)], owners


async def _owner_or_assigned(term: LeaderTerm, bundle: Bundle, why: str) -> str:
    owner = await read_owner(term.dependencies.store, bundle)
    if owner is not None:
        return owner.broker_id
    choice = await term.placements.place(bundle)
    assert choice.broker_id is not None
    await term.executor.execute(Assign(bundle, choice.broker_id, Reason.ADMIN, why))
    return choice.broker_id


async def _check_in_ring(term: LeaderTerm, bundle: Bundle) -> None:
    if bundle not in await term.dependencies.ring_of(bundle.namespace):
        raise BundleGone(f"{bundle} is not a bundle of its namespace")
