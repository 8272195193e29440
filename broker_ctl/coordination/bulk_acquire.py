"""Locks after an expiry: many in one transaction, past nodes of another session."""

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from broker_ctl.coordination.locks import Lock, Locks, make_parent
from broker_ctl.errors import (
    BadVersion,
    BrokerCtlError,
    MultiFailed,
    NodeExists,
    NoNode,
    StoreClosed,
    StoreError,
)
from broker_ctl.retry import retry
from broker_ctl.store.interface import Check, Create, CreateMode, MetadataStore, Stat
from broker_ctl.store.path_rules import parent_of
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# The deletion queue: nodes whose deletion is retried (docs: deletion-queue).
#
# A delete that failed without a connection is retried until it is done or obsolete, but only for
# the node it was meant for. An entry identifies the node by its czxid or, if its creation is not
# yet answered, by the session that creates it (I8).


_MAX_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class _WaitingDeletion:
    """The node to delete, and the time since which its deletion waits.

    Attributes:
        czxid: of the node; 0: any node that ``session_id`` created at the path.
        gone: set once the entry is done, obsolete or given up.
    """

    czxid: int
    session_id: int
    queued_s: float
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def means(self, stat: Stat) -> bool:
        if self.czxid:
            return stat.czxid == self.czxid
        return stat.ephemeral_owner == self.session_id


class Deletions:
    """A bounded queue; the oldest entry is given up when it overflows, and counted."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._entries: OrderedDict[str, _WaitingDeletion] = OrderedDict()
        self._tasks = TaskScope("deletions")
        self._work: asyncio.Task[None] | None = None
        self._is_closed = False
        self.given_up = 0

    async def close(self) -> None:
        """Stop retrying; remaining nodes end with the session."""
        self._is_closed = True
        await self._tasks.close()
        self._forget()

    async def drain(self) -> None:
        """Return once the queue is empty; the caller sets the deadline."""
        while self._entries:
            await self.wait_gone(next(iter(self._entries)))

    async def wait_gone(self, path: str) -> None:
        """Return once no deletion is queued for this path; the caller sets the deadline."""
        while (entry := self._entries.get(path)) is not None:
            await entry.gone.wait()

    @property
    def age_s(self) -> float:
        """Seconds for which the oldest entry has waited; 0 if the queue is empty."""
        queued_s = min((entry.queued_s for entry in self._entries.values()), default=None)
        return 0.0 if queued_s is None else asyncio.get_running_loop().time() - queued_s

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def add(self, path: str, czxid: int) -> None:
        """Queue the node created at ``czxid``; it must not be adopted meanwhile."""
        self._add(path, _WaitingDeletion(czxid, 0, asyncio.get_running_loop().time()))

    def add_own(self, path: str, session_id: int) -> None:
        """Queue a node that the session creates there, even if its create is still in flight.

        A caller that creates a node there in the same session must `wait_gone` first.
        """
        self._add(path, _WaitingDeletion(0, session_id, asyncio.get_running_loop().time()))

    def _add(self, path: str, entry: _WaitingDeletion) -> None:
        if self._is_closed:
            return
        self._done(path)
        self._entries[path] = entry
        if len(self._entries) > _MAX_ENTRIES:
            oldest = next(iter(self._entries))
            self._done(oldest)
            self.given_up += 1
            log.error("the queue of deletions is full: gave up on %s", oldest)
        if self._work is None or self._work.done():
            self._work = self._tasks.keep(self._process_queue(), "work off")

    def _done(self, path: str) -> None:
        if (entry := self._entries.pop(path, None)) is not None:
            entry.gone.set()

    def _forget(self) -> None:
        for path in list(self._entries):
            self._done(path)

    async def _process_queue(self) -> None:
        try:
            while self._entries:
                await retry(
                    self._delete_all, "cannot delete a queued node", rng=self._rng, judge=_may_pass
                )
        except StoreClosed:
            # What is left ends with the session.
            self._forget()

    async def _delete_all(self) -> None:
        for path, entry in list(self._entries.items()):
            try:
                await self._delete(path, entry)
            except StoreError:
                # The others go first: what is wrong may be with this one alone.
                if path in self._entries:
                    self._entries.move_to_end(path)
                raise
            # While it was deleted a newer node may have been queued on the same path.
            if self._entries.get(path) is entry:
                self._done(path)

    async def _delete(self, path: str, entry: _WaitingDeletion) -> None:
        """Delete the node; does nothing if it is gone or another node has its path."""
        # A lagging server may show an earlier node although a successor of the same version exists,
        # and may not know of a create that was in flight on another connection.
        await self._store.sync(path)
        while (stat := await self._store.exists(path)) is not None and entry.means(stat):
            # Read right before the delete: a successor's node may have the same version.
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(path, stat.version)


def _may_pass(error: BrokerCtlError) -> bool:
    """Whether a deletion can be asked for again: what a session's end leaves open is moot then."""
    return isinstance(error, StoreError) and not isinstance(error, StoreClosed)


# Many locks in one transaction: re-acquisition after a session expiry (docs: pip-57).
#
# Singly, ten thousand locks would need as many round trips, while all other brokers wait for this
# broker's grace period to end.


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
