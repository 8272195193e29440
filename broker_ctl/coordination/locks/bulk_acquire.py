"""Many locks in one transaction: re-acquisition after a session expiry (docs: pip-57).

Singly, ten thousand locks would need as many round trips, while all other brokers wait for this
broker's grace period to end.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.coordination.locks.locks import Locks, make_parent
from broker_ctl.errors import MultiFailed, NodeExists, NoNode
from broker_ctl.store.interface import Check, Create, CreateMode, MetadataStore
from broker_ctl.store.path_rules import parent_of

log = logging.getLogger(__name__)

# A node may exist, then a ring be stale, then a parent be missing; requests that fail more often
# are left to the caller, who acquires them singly.
_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class LockRequest:
    """A lock to acquire, and the checks of the transaction that creates its node."""

    path: str
    guards: tuple[Check, ...]


async def acquire_all(
    store: MetadataStore,
    locks: Locks,
    requests: Sequence[LockRequest],
    data: bytes,
    on_lost: Callable[[Lock], None],
) -> list[Lock]:
    """Acquire all locks that are free; the caller acquires the others with `Locks.acquire`.

    A failed transaction names only one operation. So all nodes are read then, and requests whose
    node exists are left out.

    Raises:
        StoreError: the outcome is unknown; none of the locks is held.
    """
    left = list(requests)
    for _ in range(_ATTEMPTS):
        if not left:
            break
        # Requests of one ring share their guards: each is hashed once, not for every request.
        distinct = {id(request.guards): request.guards for request in left}
        guards = list(dict.fromkeys(chain.from_iterable(distinct.values())))
        creates = [Create(request.path, data, CreateMode.EPHEMERAL) for request in left]
        try:
            results = await store.multi([*guards, *creates])
        except MultiFailed as error:
            log.info("cannot acquire %d locks in one transaction: %s", len(left), error)
            if error.index < len(guards):
                refuted = guards[error.index]
                left = [request for request in left if refuted not in request.guards]
            else:
                left = await _without_blocked(store, left, error)
        else:
            created = zip(left, results[len(guards) :], strict=True)
            return [locks.adopt(request.path, node, on_lost) for request, node in created]
    return []


async def _without_blocked(
    store: MetadataStore, requests: list[LockRequest], error: MultiFailed
) -> list[LockRequest]:
    """Requests whose node does not exist; creates missing parents."""
    if isinstance(error.cause, NodeExists):
        nodes = await store.get_many([request.path for request in requests])
        return [request for request, node in zip(requests, nodes, strict=True) if node is None]
    if not isinstance(error.cause, NoNode):
        raise error.cause from error
    # Servers delete empty containers, and the expiry has emptied all of them.
    by_parent = {parent_of(request.path): request.path for request in requests}
    parents = await store.get_many(list(by_parent))
    for path, parent in zip(by_parent.values(), parents, strict=True):
        if parent is None:
            await make_parent(store, path)
    return requests
