"""Resource locks: ephemeral nodes of this session, verified whenever they come into doubt.

`core/lock.py` judges, this drives. One `Lock` is one generation: late news of an earlier node on
the same path cannot touch it, because every step compares identities (reference: metadata-store
3.7 #26197, 3.8).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.core.lock import Action, Claim, Event, Identity, State, claim_of, step
from broker_ctl.core.session import Action as SessionAction
from broker_ctl.errors import BadVersion, MultiFailed, NodeExists, NoNode, StoreError
from broker_ctl.store.interface import (
    Change,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    Stat,
    Versioned,
)
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_VERIFY_BATCH: Final = 128
_VERIFY_WINDOW_S: Final = 0.3
_RETRY_S: Final = 0.25


class Lock:
    """One generation of a right. ``state`` tells whether it still stands."""

    __slots__ = ("identity", "on_lost", "path", "state", "version")

    def __init__(
        self,
        path: str,
        stat: Stat,
        on_lost: "Callable[[Lock], None]",
    ) -> None:
        self.path = path
        self.identity = Identity(stat.czxid, stat.ephemeral_owner)
        self.version = stat.version
        self.on_lost = on_lost
        self.state = State.HELD

    @property
    def token(self) -> int:
        """The fencing token: it grows with each owner that follows."""
        return self.identity.czxid

    def is_held_by(self, node: Versioned | None) -> bool:
        """Whether ``node`` is the one that this right rests on."""
        return (
            node is not None
            and Identity(node.stat.czxid, node.stat.ephemeral_owner) == self.identity
        )


class LockBusy(Exception):
    """The path is taken; ``node`` is who stands there and ``claim`` whose it is."""

    def __init__(self, node: Versioned, claim: Claim) -> None:
        super().__init__(f"{node.path} is taken ({claim.name})")
        self.node = node
        self.claim = claim


class Locks:
    """All locks of this process below one root."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        *,
        broker_id: str,
        broker_of: Callable[[Versioned], str | None],
        draws: random.Random,
    ) -> None:
        self._store = store
        self._root = root
        self._broker_id = broker_id
        self._broker_of = broker_of
        self._draws = draws
        self._held: dict[str, Lock] = {}
        self._deletions: dict[str, asyncio.Event] = {}
        self._tasks = TaskScope(f"locks below {root}")
        self._stop_watching: Callable[[], None] | None = None

    async def start(self) -> None:
        """Watch the root."""
        self._stop_watching = await self._store.watch(self._root, self._notified)

    async def close(self) -> None:
        """Stop verifying; the nodes stay with the session."""
        if self._stop_watching is not None:
            self._stop_watching()
        await self._tasks.close()

    # Acquire and release.

    async def acquire(
        self,
        path: str,
        data: bytes,
        on_lost: Callable[[Lock], None],
        guards: Sequence[Operation] = (),
    ) -> Lock:
        """Create the node together with ``guards``, all or nothing.

        Raises:
            LockBusy: somebody stands there.
            MultiFailed: a guard failed; its index is that in ``guards``.
        """
        create = Create(path, data, CreateMode.EPHEMERAL)
        while True:
            session_id = self._store.session_id
            try:
                results = await self._store.multi([*guards, create])
            except MultiFailed as error:
                if error.index < len(guards):
                    raise
                if isinstance(error.cause, NoNode):
                    await self._make_parent(path)
                elif isinstance(error.cause, NodeExists):
                    node = await self._store.get(path)
                    if node is None:
                        continue
                    claim = self._claim(node)
                    if claim is Claim.MINE and node.data == data:
                        # Created by a call whose caller has gone; the session is the same.
                        return self._hold(Lock(path, node.stat, on_lost))
                    raise LockBusy(node, claim) from error
                else:
                    raise error.cause from error
            else:
                created = results[-1]
                assert isinstance(created, Versioned)
                lock = Lock(path, created.stat, on_lost)
                if self._store.session_id != session_id:
                    # The session that it was created in has ended while the answer came.
                    lock.state = State.LOST
                    on_lost(lock)
                    return lock
                return self._hold(lock)

    def adopt(self, node: Versioned, on_lost: Callable[[Lock], None]) -> Lock:
        """Hold a node that a transaction of the caller has created in this session."""
        return self._hold(Lock(node.path, node.stat, on_lost))

    def end(self, lock: Lock) -> None:
        """A transaction of the caller has deleted the node."""
        lock.state = State.RELEASED
        self._drop(lock)

    async def release(self, lock: Lock, guards: Sequence[Operation] = ()) -> None:
        """Delete the node, together with ``guards``.

        Raises:
            MultiFailed: a guard failed, and nothing was done: the right still stands.
            StoreError: unknown; the right counts as given up, the node ends with the session.
        """
        self._feed(lock, Event.RELEASE)
        try:
            await self._store.multi([*guards, Delete(lock.path, lock.version)])
        except MultiFailed as error:
            if error.index < len(guards):
                self._feed(lock, Event.KEEP)
                raise
            if isinstance(error.cause, NoNode):
                self._feed(lock, Event.GONE)
            elif isinstance(error.cause, BadVersion):
                self._feed(lock, Event.OTHER)
            else:
                raise error.cause from error
        else:
            self._feed(lock, Event.GONE)

    async def wait_deleted(self, node: Versioned, limit_s: float) -> bool:
        """Wait until ``node`` is gone or replaced; False when it outlives the limit."""
        event = self._deletions.setdefault(node.path, asyncio.Event())
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    now = await self._store.get(node.path)
                    if now is None or now.stat.czxid != node.stat.czxid:
                        return True
                    # The event may fall into a lost connection: look again now and then.
                    try:
                        async with asyncio.timeout(_RETRY_S):
                            await event.wait()
                        event.clear()
                    except TimeoutError:
                        continue
        except TimeoutError:
            return False
        finally:
            self._deletions.pop(node.path, None)

    # Doubt.

    def session_changed(self, action: SessionAction) -> None:
        """Hear the session watcher."""
        match action:
            case SessionAction.CONNECTION_LOST:
                self._feed_all(Event.SUSPENDED)
            case SessionAction.END:
                self._feed_all(Event.SESSION_ENDED)
            case SessionAction.VERIFY:
                doubtful = list(self._held.values())
                self._feed_all(Event.RECONNECTED)
                self._tasks.start(self._verify(doubtful), "verify after reconnect")
            case _:
                pass

    def _notified(self, notification: Notification) -> None:
        if notification.change is not Change.DELETED:
            return
        if (waiting := self._deletions.get(notification.path)) is not None:
            waiting.set()
        lock = self._held.get(notification.path)
        if lock is not None and lock.state is not State.RELEASING:
            self._feed(lock, Event.NODE_DELETED)
            self._tasks.start(self._verify([lock]), f"verify {lock.path}")

    async def _verify(self, locks: list[Lock]) -> None:
        """Read the nodes again in batches, after a short pause: brokers reconnect in herds."""
        if len(locks) > _VERIFY_BATCH:
            await asyncio.sleep(self._draws.uniform(0, _VERIFY_WINDOW_S))
        for start in range(0, len(locks), _VERIFY_BATCH):
            batch = locks[start : start + _VERIFY_BATCH]
            try:
                await self._store.sync(self._root)
                nodes = await self._store.get_many([lock.path for lock in batch])
            except StoreError as error:
                # Suspended again: the next reconnect verifies everything anew.
                log.info("verifying %d locks: %s", len(locks) - start, error)
                return
            for lock, node in zip(batch, nodes, strict=True):
                if lock.is_held_by(node):
                    self._feed(lock, Event.MINE)
                else:
                    self._feed(lock, Event.GONE if node is None else Event.OTHER)

    # Inside.

    def _claim(self, node: Versioned) -> Claim:
        return claim_of(
            owner_session=node.stat.ephemeral_owner,
            is_ephemeral=node.stat.is_ephemeral,
            owner_broker=self._broker_of(node),
            session_id=self._store.session_id,
            broker_id=self._broker_id,
        )

    async def _make_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        try:
            await self._store.create(parent, mode=CreateMode.CONTAINER, make_parents=True)
        except NodeExists:
            return

    def _hold(self, lock: Lock) -> Lock:
        self._held[lock.path] = lock
        return lock

    def _drop(self, lock: Lock) -> None:
        if self._held.get(lock.path) is lock:
            del self._held[lock.path]

    def _feed_all(self, event: Event) -> None:
        for lock in list(self._held.values()):
            self._feed(lock, event)

    def _feed(self, lock: Lock, event: Event) -> None:
        lock.state, actions = step(lock.state, event)
        if lock.state in {State.LOST, State.RELEASED}:
            self._drop(lock)
        if Action.TELL_LOST in actions:
            log.warning("lost %s (%s)", lock.path, event)
            lock.on_lost(lock)
