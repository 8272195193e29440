"""Resource locks: ephemeral nodes of this session, revalidated whenever they are in doubt.

`core/machines/lock.py` decides, this module acts. One `Lock` is one generation: a late event of an
earlier node on the same path cannot touch it, because every step compares identities
(docs: pulsar-resource-lock).
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.coordination.locks.revalidation import RevalidationQueue
from broker_ctl.coordination.locks.stale_nodes import wait_for_deletion
from broker_ctl.core.machines.lock import Action, Claim, Event, State, claim_of, step
from broker_ctl.core.machines.session import Action as SessionAction
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    StoreError,
)
from broker_ctl.retry import retry
from broker_ctl.store.interface import (
    Change,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    Result,
    Versioned,
)
from broker_ctl.store.path_rules import parent_of
from broker_ctl.store.watching import set_watch
from broker_ctl.tasks import SingleFlight

log = logging.getLogger(__name__)

_OF_SESSION: Final = {
    SessionAction.CONNECTION_LOST: Event.SUSPENDED,
    SessionAction.END: Event.SESSION_ENDED,
    SessionAction.VERIFY: Event.RECONNECTED,
}


class LockBusy(Exception):
    """The path has a node already: ``node``; ``claim`` classifies its owner."""

    def __init__(self, node: Versioned, claim: Claim) -> None:
        super().__init__(f"{node.path} is taken ({claim.name})")
        self.node = node
        self.claim = claim


class Locks:
    """All locks of this process below one root.

    ``lost`` counts locks that ended without being released, by cause. ``on_verified`` receives the
    seconds from a doubt to the read that resolved it.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        *,
        broker_id: str,
        broker_of: Callable[[Versioned], str | None],
        rng: random.Random,
        on_verified: Callable[[float], None] | None = None,
    ) -> None:
        self._store = store
        self._root = root
        self._broker_id = broker_id
        self._broker_of = broker_of
        self._rng = rng
        self._held: dict[str, Lock] = {}
        # Paths with an unanswered create.
        self._unconfirmed: dict[str, None] = {}
        self._waiting: dict[str, dict[asyncio.Event, None]] = {}
        self._revalidation = RevalidationQueue(
            store, root, rng, judge=self._judge, on_verified=on_verified
        )
        self._parents: SingleFlight[str, None] = SingleFlight("parents of locks")
        self._stop_watching: Callable[[], None] | None = None
        self.lost: Counter[Event] = Counter()

    async def start(self) -> None:
        """Watch the root."""
        self._stop_watching = await set_watch(
            self._store, self._root, self._on_notification, rng=self._rng
        )

    async def close(self) -> None:
        """Stop verifying; the nodes stay with the session."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        self._held.clear()
        self._unconfirmed.clear()
        await self._parents.close()
        await self._revalidation.close()

    # Acquire and release.

    async def acquire(
        self,
        path: str,
        data: bytes,
        on_lost: Callable[[Lock], None],
        guards: Sequence[Operation] = (),
        judge: Callable[[], Awaitable[None]] | None = None,
    ) -> Lock:
        """Create the node together with ``guards``, all or nothing.

        ``judge`` runs right before each attempt and raises to prevent it.

        Raises:
            LockBusy: the node exists already.
            MultiFailed: a guard failed; its index is that in ``guards``.
            SessionExpired: the session in which it was created has ended.
        """
        create = Create(path, data, CreateMode.EPHEMERAL)
        clearing: tuple[Operation, ...] = ()
        while True:
            if judge is not None:
                await judge()
            try:
                results = await self._store.multi([*guards, *clearing, create])
                return self.adopt(path, results[-1], on_lost)
            except MultiFailed as error:
                if error.index < len(guards):
                    raise
                clearing = await self._prepare_retry(path, error.cause)
            except Ambiguous as error:
                # If the create succeeded, the next attempt or `adopt_unheld` finds the node.
                self._unconfirmed[path] = None
                log.info("created %s or not: %s; reading it again", path, error)

    def adopt(self, path: str, node: Result, on_lost: Callable[[Lock], None]) -> Lock:
        """Hold the node at ``path``, as a transaction of this process created it.

        Raises:
            Ambiguous: it is the node of another path, so the answer was not to that transaction.
            SessionExpired: its session ended before the answer came.
        """
        if not isinstance(node, Versioned) or node.path != path:
            raise Ambiguous(f"{path}: the answer is about {node}", self._store.session_id)
        if node.stat.ephemeral_owner != self._store.session_id:
            raise SessionExpired(f"{node.path} was created in a session that has ended")
        lock = Lock(node.path, node.stat, on_lost)
        self._held[lock.path] = lock
        self._unconfirmed.pop(lock.path, None)
        return lock

    def is_unconfirmed(self, path: str) -> bool:
        """Whether an unanswered create may have left a node there."""
        return path in self._unconfirmed

    async def adopt_unheld(self, *paths: str) -> list[Lock]:
        """Hold the nodes of this session that unanswered creates left.

        Covers all nodes below the root, or those of ``paths``, which must not be acquired
        meanwhile.
        Returns once the store has answered.

        Raises:
            StoreError: not retriable, for example because the session has ended.
        """
        what = f"cannot list the nodes of this session below {self._root}"
        nodes = await retry(partial(self._read_unheld, paths), what, rng=self._rng)
        for path in paths or tuple(self._unconfirmed):
            self._unconfirmed.pop(path, None)
        mine = [n for n in nodes if n.stat.ephemeral_owner == self._store.session_id]
        return [self.adopt(node.path, node, lambda _: None) for node in mine]

    async def _read_unheld(self, paths: Sequence[str]) -> list[Versioned]:
        # What was sent over an earlier connection is done by then, or never.
        await self._store.sync(self._root)
        found = paths or await self._store.ephemerals(self._root)
        unheld = [path for path in found if path not in self._held]
        return [node for path in unheld if (node := await self._store.get(path))]

    async def release(self, lock: Lock, guards: Sequence[Operation] = ()) -> None:
        """Delete the node together with ``guards``; does nothing if the lock has ended.

        Raises:
            MultiFailed: a guard failed; nothing was done and the lock is still held.
            StoreError: the outcome is unknown; the lock counts as released, its node must go.
        """
        self._feed(Event.RELEASE, lock)
        if lock.state is not State.RELEASING:
            return
        try:
            # Read right before the delete: a successor's node may have the same version.
            while lock.is_held_by(node := await self._store.get(lock.path)):
                assert node is not None
                if await self._delete([*guards, Delete(lock.path, node.stat.version)]):
                    break
        except MultiFailed:
            self._feed(Event.REFUSED, lock)
            raise
        except StoreError:
            self._feed(Event.DONE, lock)
            raise
        self._feed(Event.DONE, lock)

    async def _delete(self, operations: Sequence[Operation]) -> bool:
        """Delete it; False if the node changed meanwhile. Raises `MultiFailed` for a guard."""
        try:
            await self._store.multi(operations)
        except MultiFailed as error:
            if error.index < len(operations) - 1:
                raise
            if isinstance(error.cause, NoNode | BadVersion):
                return False
            raise error.cause from error
        return True

    # Split and merge delete the node in a transaction of their own.

    def begin_release(self, lock: Lock) -> None:
        """A transaction that deletes the node is about to be sent: its outcome will be reported."""
        self._feed(Event.RELEASE, lock)

    def confirm_release(self, lock: Lock) -> None:
        """The transaction was committed."""
        self._feed(Event.DONE, lock)

    def cancel_release(self, lock: Lock) -> None:
        """The transaction failed, or its outcome is unknown: the node is read again."""
        self._feed(Event.REFUSED, lock)

    async def wait_deleted(self, node: Versioned, limit_s: float) -> bool:
        """Wait until ``node`` is gone or replaced; False if it still exists after the limit."""
        deleted = asyncio.Event()
        waiting = self._waiting.setdefault(node.path, {})
        waiting[deleted] = None
        try:
            return await wait_for_deletion(self._store, node, limit_s, deleted)
        finally:
            waiting.pop(deleted, None)
            if not waiting and self._waiting.get(node.path) is waiting:
                del self._waiting[node.path]

    # Revalidation.

    def on_session_action(self, action: SessionAction) -> None:
        """Listener of the session watcher."""
        if action in _OF_SESSION:
            self._feed(_OF_SESSION[action], *self._held.values())

    def _on_notification(self, notification: Notification) -> None:
        if notification.change is not Change.DELETED:
            return
        for deleted in self._waiting.get(notification.path, ()):
            deleted.set()
        # It may be a late event of an earlier generation: only reading the node decides.
        if (lock := self._held.get(notification.path)) is not None:
            self._feed(Event.NODE_DELETED, lock)

    def _feed(self, event: Event, *locks: Lock) -> None:
        doubtful: list[Lock] = []
        for lock in locks:
            lock.state, actions = step(lock.state, event)
            if lock.has_ended and self._held.get(lock.path) is lock:
                del self._held[lock.path]
                if lock.state is State.LOST:
                    self.lost[event] += 1
            if Action.READ in actions:
                doubtful.append(lock)
            if Action.NOTIFY_LOST in actions:
                log.warning("lost %s (%s)", lock.path, event)
                lock.on_lost(lock)
        self._revalidation.add(doubtful)

    def _judge(self, lock: Lock, node: Versioned | None) -> None:
        found = Event.GONE if node is None else Event.OTHER
        self._feed(Event.MINE if lock.is_held_by(node) else found, lock)

    # Internals.

    async def _prepare_retry(self, path: str, cause: StoreError) -> tuple[Operation, ...]:
        """Operations that the next attempt must run before the create.

        Raises:
            LockBusy: the node belongs to another session.
        """
        if not isinstance(cause, NoNode | NodeExists | BadVersion):
            raise cause
        node = await self._store.get(path)
        if node is None:
            if isinstance(cause, NoNode):
                # All bundles of a namespace that nobody owned yet miss it at the same time.
                parent = parent_of(path)
                make = partial(make_parent, self._store, path)
                await self._parents.do(parent, make, f"create {parent}")
            return ()
        claim = claim_of(
            owner_session=node.stat.ephemeral_owner,
            is_ephemeral=node.stat.is_ephemeral,
            owner_broker=self._broker_of(node),
            session_id=self._store.session_id,
            broker_id=self._broker_id,
        )
        if claim is not Claim.MINE:
            self._unconfirmed.pop(path, None)
            raise LockBusy(node, claim)
        # Left by a call whose answer was lost, or by an earlier process of the same session. A new
        # node gives a new token, so that an earlier act cannot pass for a new one.
        return (Delete(path, node.stat.version),)


async def make_parent(store: MetadataStore, path: str) -> None:
    """Create the container that is the parent of a lock; servers delete it when it is empty."""
    with contextlib.suppress(NodeExists):
        await store.create(parent_of(path), mode=CreateMode.CONTAINER, make_parents=True)
