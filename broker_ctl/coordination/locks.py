"""Resource locks: ephemeral nodes of this session, revalidated whenever they are in doubt."""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from broker_ctl.core.machines.lock import (
    Claim,
    LockAction,
    LockEvent,
    LockIdentity,
    LockState,
    claim_of,
    step,
)
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    BrokerCtlError,
    CorruptRecord,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
    SessionExpired,
    StartError,
    StoreError,
)
from broker_ctl.retry import retry
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import (
    Change,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    Result,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import parent_of
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.tasks import SingleFlight, TaskScope

log = logging.getLogger(__name__)

# Ephemeral nodes of another session under an id of this broker: waited for, never deleted.
#
# They belong to an earlier session of this process, to an earlier run of this broker, or to
# another process that was given the same id by mistake (docs: pulsar-resource-lock).
#
# The leader of the ZooKeeper servers ends a dead session within its timeout plus a tick; a new
# leader grants each session a full timeout again. So the limit restarts when the servers elect a
# leader, which the upper half of a zxid shows, at most `_MAX_RESTARTS` times.


# ZooKeeper's default upper bound on a session timeout, for nodes that do not state theirs.
_MAX_TIMEOUT_TICKS: Final = 20
_POLL_S: Final = 0.25
_MARGIN_S: Final = 2.0
_MAX_RESTARTS: Final = 3


class PreviousSessionNodes:
    """Waits for nodes of other sessions under an id of this broker.

    Args:
        name: the id that the node reserves, for messages.
        advice: what the operator must do if two brokers have it.
        registration_of: path of the registration of a node's daemon, which states its session
            timeout; None if unknown.
    """

    def __init__(
        self,
        store: MetadataStore,
        tick_s: float,
        *,
        name: str,
        advice: str,
        registration_of: Callable[[Versioned], str | None],
    ) -> None:
        self._store = store
        self._tick_s = tick_s
        self._name = name
        self._advice = advice
        self._registration_of = registration_of

    async def wait_gone(self, path: str) -> None:
        """Wait until a node of another session is gone; delete one of this session.

        Raises:
            StartError: it outlives the longest possible dead session, so its process is alive.
        """
        node = await self._store.get(path)
        if node is None:
            return
        if node.stat.ephemeral_owner == self._store.session_id:
            # A node of this session, from a call whose answer was lost or from before the session
            # was resumed: it is created again together with the other nodes.
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(path, node.stat.version)
            return
        limit_s = await self._limit_s(node)
        log.info("%s is of another session: waiting up to %.1f s for its deletion", path, limit_s)
        if not await wait_for_deletion(self._store, node, limit_s):
            raise StartError(
                f"{self._name} is in use: {path} outlived {limit_s:.0f} s"
                f"{await self._describe_holder(node)}; {self._advice}",
            )

    async def _limit_s(self, node: Versioned) -> float:
        """Seconds that a node of a dead session can survive."""
        timeout_s = max(self._store.session_timeout_s, _MAX_TIMEOUT_TICKS * self._tick_s)
        if (registration := await self._holder_registration(node)) is not None:
            timeout_s = registration.session_timeout_ms / 1000
        return stale_limit_s(timeout_s, self._tick_s)

    async def _describe_holder(self, node: Versioned) -> str:
        registration = await self._holder_registration(node)
        if registration is None:
            return ""
        daemon, started_ms = registration.urls.broker_id, registration.started_ms
        return f", a process started at {started_ms} ms as {daemon} holds it"

    async def _holder_registration(self, node: Versioned) -> Registration | None:
        path = self._registration_of(node)
        found = None if path is None else await self._store.get(path)
        try:
            return None if found is None else Registration.decode(found.path, found.data)
        except (CorruptRecord, NewerVersion) as error:
            log.warning("cannot read the registration of a node's daemon: %s", error)
            return None


def stale_limit_s(timeout_s: float, tick_s: float) -> float:
    """Seconds that a node of a dead session can survive while the servers have a leader."""
    return timeout_s + 2 * tick_s + _MARGIN_S


async def wait_for_deletion(
    store: MetadataStore, node: Versioned, limit_s: float, hint: asyncio.Event | None = None
) -> bool:
    """Return True once ``node`` is gone or replaced, False if it outlives the limit.

    It may take longer than the limit by the time for which the servers do not answer.

    ``hint`` is set when the deletion is notified. A notification may be lost with the connection,
    so the node is polled too.
    """
    hint = hint or asyncio.Event()
    loop = asyncio.get_running_loop()
    term, restarts = store.last_zxid >> 32, 0
    end_s = loop.time() + limit_s
    while True:
        hint.clear()
        # Only a read sent after the limit proves that the node outlives it: an earlier one may be
        # answered after a long outage, or by a lagging server.
        is_last = loop.time() >= end_s
        if is_last:
            await store.sync(node.path)
        stat = await store.exists(node.path)
        if stat is None or stat.czxid != node.stat.czxid:
            return True
        if store.last_zxid >> 32 != term and restarts < _MAX_RESTARTS:
            term, restarts = store.last_zxid >> 32, restarts + 1
            end_s = loop.time() + limit_s
        elif is_last:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_POLL_S, max(0.0, end_s - loop.time()))):
                await hint.wait()


# One lock: ownership of one ephemeral node.


class Lock:
    """One generation of a lock; ``state`` says whether it is still held."""

    __slots__ = ("identity", "on_lost", "path", "state", "version")

    def __init__(
        self,
        path: str,
        stat: Stat,
        on_lost: "Callable[[Lock], None]",
    ) -> None:
        self.path = path
        self.identity = LockIdentity(stat.czxid, stat.ephemeral_owner)
        self.version = stat.version
        self.on_lost = on_lost
        self.state = LockState.HELD

    @property
    def token(self) -> int:
        """The fencing token; each later owner has a higher one."""
        return self.identity.czxid

    @property
    def has_ended(self) -> bool:
        """Whether this generation was lost or released."""
        return self.state in {LockState.LOST, LockState.RELEASED}

    def is_held_by(self, node: Versioned | None) -> bool:
        """Whether ``node`` is the node of this lock."""
        return (
            node is not None
            and LockIdentity(node.stat.czxid, node.stat.ephemeral_owner) == self.identity
        )


# Revalidation: reads the nodes of locks in doubt again.
#
# One task reads in batches: the end of a session deletes thousands of nodes with a notification
# for each, and single reads would keep the servers from all other requests.


_BATCH: Final = 128
_WINDOW_S: Final = 0.3


class RevalidationQueue:
    """Locks in doubt, oldest doubt first.

    ``judge`` receives each lock with its node; ``on_verified`` the seconds since the oldest doubt
    of a batch.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        rng: random.Random,
        *,
        judge: Callable[[Lock, Versioned | None], None],
        on_verified: Callable[[float], None] | None,
    ) -> None:
        self._store = store
        self._root = root
        self._rng = rng
        self._judge = judge
        self._on_verified = on_verified
        self._since_s: dict[Lock, float] = {}
        self._is_verifying = False
        self._tasks = TaskScope(f"locks below {root}")

    def add(self, locks: Sequence[Lock]) -> None:
        """Queue their nodes for reading, even during a read: its answer may be older."""
        if not locks:
            return
        now_s = asyncio.get_running_loop().time()
        for lock in locks:
            self._since_s.setdefault(lock, now_s)
        if not self._is_verifying:
            self._is_verifying = True
            self._tasks.keep(self._verify(), "verify")

    async def close(self) -> None:
        """Stop reading."""
        self._since_s.clear()
        await self._tasks.close()

    async def _verify(self) -> None:
        try:
            if len(self._since_s) > _BATCH:
                # A delay, because many brokers reconnect at once.
                await asyncio.sleep(self._rng.uniform(0, _WINDOW_S))
            while self._since_s:
                batch = list(islice(self._since_s, _BATCH))
                since_s = min(self._since_s.pop(lock) for lock in batch)
                await self._verify_batch(batch, since_s)
        finally:
            self._is_verifying = False

    async def _verify_batch(self, batch: list[Lock], since_s: float) -> None:
        """Read until the store answers or all locks of the batch have ended.

        Locks that are held again are read too: that state may rest on an older answer.
        """

        async def verify() -> None:
            doubtful = [lock for lock in batch if not lock.has_ended]
            if not doubtful:
                return
            await self._store.sync(self._root)
            nodes = await self._store.get_many([lock.path for lock in doubtful])
            for lock, node in zip(doubtful, nodes, strict=True):
                self._judge(lock, node)
            if self._on_verified is not None:
                self._on_verified(asyncio.get_running_loop().time() - since_s)

        def is_needed(error: BrokerCtlError) -> bool:
            """The next reconnect verifies those that a lost connection has made suspect."""
            left = (lock for lock in batch if not lock.has_ended)
            return isinstance(error, StoreError) and any(
                lock.state is not LockState.SUSPECT for lock in left
            )

        try:
            await retry(verify, f"cannot verify {len(batch)} locks", rng=self._rng, judge=is_needed)
        except StoreError as error:
            log.info("cannot verify %d locks: %s; the reconnect does", len(batch), error)


# Resource locks: ephemeral nodes of this session, revalidated whenever they are in doubt.
#
# `core/machines/lock.py` decides, this module acts. One `Lock` is one generation: a late event of
# an earlier node on the same path cannot touch it, because every step compares identities (docs:
# pulsar-resource-lock).


_OF_SESSION: Final = {
    SessionAction.CONNECTION_LOST: LockEvent.SUSPENDED,
    SessionAction.END: LockEvent.SESSION_ENDED,
    SessionAction.VERIFY: LockEvent.RECONNECTED,
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
        self.lost: Counter[LockEvent] = Counter()

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
        self._feed(LockEvent.RELEASE, lock)
        if lock.state is not LockState.RELEASING:
            return
        try:
            # Read right before the delete: a successor's node may have the same version.
            while lock.is_held_by(node := await self._store.get(lock.path)):
                assert node is not None
                if await self._delete([*guards, Delete(lock.path, node.stat.version)]):
                    break
        except MultiFailed:
            self._feed(LockEvent.REFUSED, lock)
            raise
        except StoreError:
            self._feed(LockEvent.DONE, lock)
            raise
        self._feed(LockEvent.DONE, lock)

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
        self._feed(LockEvent.RELEASE, lock)

    def confirm_release(self, lock: Lock) -> None:
        """The transaction was committed."""
        self._feed(LockEvent.DONE, lock)

    def cancel_release(self, lock: Lock) -> None:
        """The transaction failed, or its outcome is unknown: the node is read again."""
        self._feed(LockEvent.REFUSED, lock)

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
            self._feed(LockEvent.NODE_DELETED, lock)

    def _feed(self, event: LockEvent, *locks: Lock) -> None:
        doubtful: list[Lock] = []
        for lock in locks:
            lock.state, actions = step(lock.state, event)
            if lock.has_ended and self._held.get(lock.path) is lock:
                del self._held[lock.path]
                if lock.state is LockState.LOST:
                    self.lost[event] += 1
            if LockAction.READ in actions:
                doubtful.append(lock)
            if LockAction.NOTIFY_LOST in actions:
                log.warning("lost %s (%s)", lock.path, event)
                lock.on_lost(lock)
        self._revalidation.add(doubtful)

    def _judge(self, lock: Lock, node: Versioned | None) -> None:
        found = LockEvent.GONE if node is None else LockEvent.OTHER
        self._feed(LockEvent.MINE if lock.is_held_by(node) else found, lock)

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
