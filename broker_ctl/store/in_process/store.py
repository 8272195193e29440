"""A metadata store inside the process, for a cluster whose own store is not to be read."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from broker_ctl.clock import Clock
from broker_ctl.errors import (
    Ambiguous,
    MultiFailed,
    NodeExists,
    SessionError,
    SessionExpired,
    StoreClosed,
    StoreError,
    TooLarge,
)
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.in_process.keeper import StateImage, StateKeeper, is_lasting
from broker_ctl.store.in_process.tree import Author, Committed, Tree
from broker_ctl.store.interface import (
    ANY_VERSION,
    NO_SESSION,
    Answer,
    Aspect,
    Create,
    CreateMode,
    Delete,
    NotificationListener,
    Operation,
    Outcome,
    Read,
    Result,
    SavedSession,
    SessionEvent,
    SessionListener,
    SetData,
    StallWrite,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import ROOT, ancestors_of, is_at_or_below, validate
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# What has to change in a tree, so that it shows the nodes that a cluster would have.


_NO_RUN: Final = 0


class Projected(NamedTuple):
    """One node of the cluster.

    Attributes:
        run: which run of which broker it belongs to, as the session of an ephemeral node does; 0:
            it belongs to none. A node of another run is another node, with another czxid.
    """

    data: bytes
    run: int = _NO_RUN


def changes(
    tree: Tree, root: str, wanted: Mapping[str, Projected], now_ms: int
) -> Iterator[tuple[Sequence[Operation], Author]]:
    """Transactions after which ``wanted`` are the nodes with data at ``root`` and below.

    They are worked out one after the other, each on the tree with the earlier ones applied.
    """
    there = {node.path: node for node in tree.nodes() if is_at_or_below(root, node.path)}
    parents = {ancestor for path in wanted for ancestor in ancestors_of(path)}
    # Children before their parents.
    for path in sorted(there, reverse=True):
        if path not in wanted and path not in parents and path != ROOT:
            yield [Delete(path)], Author(_NO_RUN, now_ms)
    for path, node in sorted(wanted.items()):
        for ancestor in ancestors_of(path):
            if tree.find(ancestor) is None:
                yield [Create(ancestor)], Author(_NO_RUN, now_ms)
        if operations := list(_operations(path, node, tree.find(path))):
            yield operations, Author(node.run, now_ms)


def _operations(path: str, node: Projected, known: Versioned | None) -> Iterator[Operation]:
    mode = CreateMode.EPHEMERAL if node.run else CreateMode.PERSISTENT
    if known is not None and known.stat.ephemeral_owner != node.run:
        yield Delete(path)
        known = None
    if known is None:
        yield Create(path, node.data, mode)
    elif known.data != node.data:
        yield SetData(path, node.data)


# A metadata store inside the process, for a cluster whose own store is not to be read.
#
# It has two kinds of nodes. Those of the cluster are projected into it by the part of the process
# that reads the cluster; nobody else writes them. The process's own nodes are written as in
# ZooKeeper, and are durable, by a `StateKeeper`, before a write returns.
#
# A session is a hold of the keeper's state. It ends when another process has become the holder,
# and takes the ephemeral nodes with it.


_SESSION_BITS: Final = 56
# Between two attempts while another process holds the state.
_WAIT: Final = Backoff(first_s=0.5, factor=1.5, max_s=3.0)


class InProcessStore:
    """`BulkStore` of one process.

    Attributes:
        refresh: awaited by `sync`, so that what is read after it is not older; set by the part
            that projects the cluster.
        waiting_for: why this process does not hold the state yet; empty if it does.
        ended_by: why it takes no more requests; None while it does.
    """

    def __init__(
        self,
        keeper: StateKeeper,
        clock: Clock,
        rng: random.Random,
        *,
        session_timeout_s: float,
        name: str = "metadata-store",
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._rng = rng
        self._timeout_s = session_timeout_s
        self.name: Final = name
        self.session_id = 0
        self.handshake_s = 0.0
        self.waiting_for = ""
        self.ended_by: StoreError | None = None
        self.refresh: Callable[[str], Awaitable[None]] | None = None
        self._tree = Tree()
        self._turn = asyncio.Lock()
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self._watches: list[tuple[str, NotificationListener]] = []
        self._listeners: list[SessionListener] = []
        self._tasks = TaskScope("in-process store")

    # Session.

    @property
    def session_timeout_s(self) -> float:
        """0 while there is no session."""
        return self._timeout_s if self.session_id else 0.0

    @property
    def saved_session(self) -> SavedSession:
        """A session cannot be resumed."""
        return NO_SESSION

    @property
    def last_zxid(self) -> int:
        """Of the newest transaction."""
        return self._tree.zxid

    @property
    def is_connected(self) -> bool:
        """Whether this process holds the state."""
        return self.session_id != 0 and self.ended_by is None

    async def start(self) -> None:
        """Begin to acquire the state."""
        self._tasks.keep(self._hold(), "hold the state")

    async def wait_connected(self) -> None:
        """See `MetadataStore.wait_connected`."""
        await self._connected.wait()
        self._check_open()

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """See `MetadataStore.listen`."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def repeat_in_stalls(self, write: StallWrite | None) -> None:
        """Nothing is repeated: only the loop can renew the hold."""

    async def least_timeouts_s(self) -> Sequence[float]:
        """Empty: there are no servers."""
        return ()

    def access_control(self, _top: str = "/") -> None:
        """Nodes in a process have no access control lists."""

    def whole_tree(self) -> None:
        """There is no chroot."""

    async def close(self, *, end_session: bool = True) -> None:
        """See `MetadataStore.close`."""
        if self.ended_by is not None:
            return
        self.ended_by = StoreClosed("the store is closed")
        await self._tasks.close()
        if self.session_id and end_session:
            with suppress(StoreError):
                await self._keeper.release()
        await self._keeper.close()
        self._connected.set()  # callers that wait for a session fail now
        self._notify(SessionEvent.CLOSED)

    async def _hold(self) -> None:
        """One session after the other."""
        while True:
            state = await retry(
                self._acquire,
                "cannot acquire the state",
                rng=self._rng,
                judge=is_any(StoreError),
                backoff=_WAIT,
                level=logging.WARNING,
            )
            self.waiting_for = ""
            try:
                self._begin(StateImage.decode(state))
            except StoreError as error:
                # Nothing here may be overwritten by this process.
                self._give_up(error)
                return
            await self._lost.wait()
            self._end()

    async def _acquire(self) -> bytes:
        self.handshake_s = self._clock.now_s()
        try:
            return await self._keeper.acquire(self._timeout_s)
        except StoreError as error:
            self.waiting_for = str(error)
            raise

    def _begin(self, image: StateImage) -> None:
        own = [node.path for node in self._tree.nodes() if is_lasting(node)]
        self._tree.forget(own)
        self._tree.load(image.nodes, image.zxid)
        self.session_id = self._rng.getrandbits(_SESSION_BITS) | 1
        self._lost.clear()
        self._connected.set()
        self._notify(SessionEvent.CONNECTED)

    def _end(self) -> None:
        session_id, self.session_id = self.session_id, 0
        self._connected.clear()
        for path in self._tree.ephemerals(session_id):
            self._apply(self._tree.prepare([Delete(path)], self._author()))
        self._notify(SessionEvent.EXPIRED)

    def _give_up(self, error: StoreError) -> None:
        log.error("the state cannot be used: %s", error)
        self.ended_by = error
        self._connected.set()
        self._notify(SessionEvent.CLOSED)

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        validate(path)
        self._check_open()
        return self._tree.find(path)

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore.get_many`."""
        return [await self.get(path) for path in paths]

    async def exists(self, path: str) -> Stat | None:
        """See `MetadataStore.exists`."""
        node = await self.get(path)
        return None if node is None else node.stat

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        validate(path)
        self._check_open()
        return self._tree.children(path)

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:  # noqa: ARG002  # nothing is waited for
        """See `BulkStore.read_many`."""
        self._check_open()
        return [self._answer(read) for read in reads]

    async def sync(self, path: str) -> None:
        """Have the nodes that show ``path`` projected again, if they are the cluster's.

        Raises:
            StoreError: the cluster does not answer.
        """
        validate(path)
        self._check_open()
        if self.refresh is not None:
            await self.refresh(path)

    async def ephemerals(self, prefix: str) -> list[str]:
        """See `MetadataStore.ephemerals`."""
        validate(prefix)
        found = self._tree.ephemerals(self.session_id)
        return [path for path in found if is_at_or_below(prefix, path)]

    async def watch(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """See `MetadataStore.watch`."""
        validate(root)
        self._check_open()
        entry = (root, listener)
        self._watches.append(entry)
        return lambda: self._watches.remove(entry)

    def _answer(self, read: Read) -> Answer:
        if read.aspect is Aspect.CHILDREN:
            return self._tree.children(read.path)
        node = self._tree.find(read.path)
        return node.stat if node is not None and read.aspect is Aspect.STAT else node

    # Writes.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """See `MetadataStore.create`; parents stay when they are empty."""
        if make_parents:
            for ancestor in ancestors_of(path):
                with suppress(NodeExists):
                    await self._write(Create(ancestor))
        created = await self._write(Create(path, data, mode, ttl_ms))
        assert isinstance(created, Versioned)
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        stat = await self._write(SetData(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        await self._write(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore.multi`."""
        return await self._commit(tuple(operations)) if operations else ()

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore.write_many`; the keeper has the deadline of its own requests."""
        del deadline_s
        return await self._commit(tuple(operations))

    async def project(self, root: str, nodes: Mapping[str, Projected]) -> None:
        """Make the cluster's nodes below ``root`` those, and no others."""
        async with self._turn:
            for operations, author in changes(self._tree, root, nodes, self._clock.wall_ms()):
                self._apply(self._tree.prepare(operations, author))

    async def _write(self, operation: Operation) -> Result:
        try:
            (result,) = await self._commit((operation,))
        except MultiFailed as error:
            raise error.cause from None
        return result

    async def _commit(self, operations: tuple[Operation, ...]) -> tuple[Result, ...]:
        for operation in operations:
            is_numbered = isinstance(operation, Create) and operation.mode.is_sequential
            validate(operation.path + "0" if is_numbered else operation.path)
        async with self._turn:
            session_id = self._check_session()
            committed = self._tree.prepare(operations, self._author())
            try:
                await self._make_durable(committed)
            except SessionError:
                self._lost.set()
                raise
            except Ambiguous as error:
                # What is kept may be newer than this tree: read it again, in another session.
                self._lost.set()
                raise Ambiguous(str(error), session_id, self._tree.zxid - 1) from error
            if session_id != self.session_id:
                raise SessionExpired("the session has ended meanwhile")
            self._apply(committed)
            return committed.results

    async def _make_durable(self, committed: Committed) -> None:
        """Keep what lasts; a heartbeat prolongs the hold in its place."""
        before = {path: self._tree.find(path) for path in committed.touched}
        changed = [
            path
            for path, node in committed.touched.items()
            if _lasts(before[path]) != _lasts(node) or _kept(before[path]) != _kept(node)
        ]
        if changed:
            image = StateImage.of(self._tree.with_changes(committed), committed.zxid).encode()
            if len(image) > self._keeper.most_bytes:
                raise TooLarge(f"a state of {len(image)} bytes, of {self._keeper.most_bytes}")
            await self._keeper.write(image)
        elif any(is_at_or_below(paths.LEASES, path) for path in committed.touched):
            await self._keeper.renew()

    def _apply(self, committed: Committed) -> None:
        self._tree.apply(committed)
        for notification in committed.notifications:
            for root, listener in tuple(self._watches):
                if is_at_or_below(root, notification.path):
                    listener(notification)

    def _author(self) -> Author:
        return Author(self.session_id, self._clock.wall_ms())

    def _check_open(self) -> None:
        if self.ended_by is not None:
            raise type(self.ended_by)(str(self.ended_by))

    def _check_session(self) -> int:
        self._check_open()
        if not self.session_id or self._lost.is_set():
            raise SessionExpired("this process does not hold the state")
        return self.session_id

    def _notify(self, event: SessionEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)


def _lasts(node: Versioned | None) -> bool:
    return node is not None and is_lasting(node)


def _kept(node: Versioned | None) -> tuple[bytes, int] | None:
    """What of a lasting node is kept: the counts of its children are worked out again."""
    return (node.data, node.stat.version) if node is not None and is_lasting(node) else None
