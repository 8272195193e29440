"""Invariants of a plan, checked on the plan and on the resulting view.

The executor ensures the safety of a single move or split, by checking versions and epochs as it
writes; this module refuses plans that would be wrong even if every step succeeded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import assert_never

from broker_ctl.core.cluster.decisions import (
    Assign,
    Decision,
    Merge,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.cluster.imbalance import is_worth_it
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import InvariantBroken


def check(before: ClusterView, decisions: Sequence[Decision], after: ClusterView) -> None:
    """Judge ``decisions``, which were made on ``before`` and lead to ``after``.

    Raises:
        InvariantBroken: the message lists every violated invariant.
    """
    faults = find_violations(before, decisions, after)
    if faults:
        raise InvariantBroken("; ".join(faults))


def find_violations(
    before: ClusterView, decisions: Sequence[Decision], after: ClusterView
) -> list[str]:
    """Every invariant that is violated, as a sentence."""
    faults = list(_claims(before, decisions))
    for decision in decisions:
        faults += _parties(before, decision)
    touched = {bundle.namespace for decision in decisions for bundle in decision.bundles}
    for namespace in sorted(touched):
        faults += _ring(before, after, namespace)
    faults += _owners(after)
    return faults


def _claims(before: ClusterView, decisions: Iterable[Decision]) -> Iterator[str]:
    claims = Counter(bundle for decision in decisions for bundle in decision.bundles)
    for bundle, count in sorted(claims.items()):
        if count > 1:
            yield f"{bundle} is in {count} decisions"
        if bundle not in before.bundles:
            yield f"{bundle} is not in the view"
        if before.is_busy(bundle):
            yield f"{bundle} is moving or being split already"
        if not before.is_in_ring(bundle):
            yield f"{bundle} is not a bundle of its namespace"


def _parties(before: ClusterView, decision: Decision) -> Iterator[str]:
    """The source must be the owner, the destination able to receive, and the move a gain."""
    match decision:
        case Assign(bundle, destination):
            yield from _owned_by(before, bundle, None)
            yield from _can_receive(before, destination)
        case Unload(bundle, source):
            yield from _movable(before, bundle, source)
        case Transfer(bundle, source, destination):
            yield from _movable(before, bundle, source)
            yield from _can_receive(before, destination)
            if source == destination:
                yield f"{bundle} would move from {source} to itself"
            pair = decision.source_before, decision.destination_before
            if not is_worth_it(decision.reason, *pair, decision.load_vector):
                yield f"{bundle} would only carry the load from {source} to {destination}"
        case Split(bundle, owner):
            yield from _movable(before, bundle, owner)
        case Merge(left, right, owner):
            yield from _movable(before, left, owner)
            yield from _movable(before, right, owner)
        case Skip():
            return
        case _:
            assert_never(decision)


def _movable(before: ClusterView, bundle: Bundle, owner: str) -> Iterator[str]:
    if bundle.namespace.is_pinned:
        yield f"{bundle} belongs to its broker"
    yield from _owned_by(before, bundle, owner)


def _owned_by(before: ClusterView, bundle: Bundle, owner: str | None) -> Iterator[str]:
    seen = before.bundles.get(bundle)
    if seen is not None and seen.owner != owner:
        yield f"{bundle} is owned by {seen.owner or 'nobody'}, not by {owner or 'nobody'}"


def _can_receive(before: ClusterView, broker_id: str) -> Iterator[str]:
    broker = before.brokers.get(broker_id)
    if broker is None:
        yield f"{broker_id} is not alive"
    elif broker.is_draining:
        yield f"{broker_id} is draining"


def _ring(before: ClusterView, after: ClusterView, namespace: Namespace) -> Iterator[str]:
    """No hash is lost or doubled. Bundles in a ring are disjoint, so membership is enough.

    A bundle that was not in its ring before is a stale owner node, and not a fault of the plan.
    """
    old, new = before.rings.get(namespace), after.rings.get(namespace)
    if old is None or new is None:
        yield f"the ring of {namespace} is unknown"
        return
    was = [bundle for bundle in old.bundles if bundle in before.bundles]
    now = [bundle for bundle in new.bundles if bundle in after.bundles]
    if _hashes(was) != _hashes(now):
        yield f"the bundles of {namespace} would hold {_hashes(now)} hashes, not {_hashes(was)}"


def _hashes(bundles: Iterable[Bundle]) -> int:
    return sum(bundle.range.high - bundle.range.low for bundle in bundles)


def _owners(after: ClusterView) -> list[str]:
    """No bundle has two owners, and each is counted only at its owner.

    Only faults are sorted: sorting all bundles of a large cluster takes seconds.
    """
    brokers, bundles = after.brokers.values(), after.bundles
    owned = [broker.owned for broker in brokers]
    # Sets are joined without a call for the hash of each bundle.
    has_doubles = sum(map(len, owned)) > len(frozenset[Bundle]().union(*owned))
    counts = Counter(chain.from_iterable(owned) if has_doubles else ())
    strange: list[tuple[str, Bundle]] = []
    for broker in brokers:
        moving = broker.owned.intersection(after.moves)
        strange += [
            (broker.broker_id, bundle)
            for bundle in broker.owned
            if (seen := bundles.get(bundle)) is None
            or (seen.owner != broker.broker_id and bundle not in moving)
        ]
        strange += [
            (broker.broker_id, bundle)
            for bundle in moving
            if bundle in bundles and after.moves[bundle].destination != broker.broker_id
        ]
    return [
        *(
            f"{bundle} would have {count} owners"
            for bundle, count in sorted(counts.items())
            if count > 1
        ),
        *(
            f"{bundle} would be counted at {broker_id}, which does not own it"
            for broker_id, bundle in sorted(strange)
        ),
    ]
