"""The metadata store over a session with a `MemoryEnsemble`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.errors import Ambiguous, MultiFailed, NodeExists, NoNode, StoreError, TooLarge
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.session import MemorySession
from broker_ctl.lab.memory_store.transport import (
    Faults,
    MemoryRequest,
    RequestKind,
    StallThread,
    Transit,
    kind_of,
)
from broker_ctl.store.in_process.tree import Tree
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
    SessionListener,
    SetData,
    StallWrite,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import ancestors_of, is_at_or_below, validate

# jute.maxbuffer, as servers have it by default.
_MOST_BYTES: Final = 0xFFFFF


async def _one_turn() -> None:
    await asyncio.sleep(0)


class MemoryStore:
    """`MetadataStore` in memory; several on one ensemble are several clients of it.

    ``transit`` is awaited twice for each request and each handshake, once per direction: its
    duration is the latency of the network. ``resumed`` is the session of an earlier store.
    ``faults``, ``pulse``, ``is_batching``: see `transport.MemoryTransport`; ``is_busy``:
    `stalls.StallThread`.
    """

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        name: str = "metadata-store",
        *,
        session_timeout_s: float = 30.0,
        operation_timeout_s: float = 30.0,
        transit: Transit = _one_turn,
        resumed: SavedSession = NO_SESSION,
        faults: Faults | None = None,
        pulse: Callable[[], float] | None = None,
        is_busy: Callable[[], bool] = lambda: False,
        is_batching: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._name = name
        self._operation_timeout_s = operation_timeout_s
        self._stalls = StallThread(ensemble, is_busy)
        self._session = MemorySession(
            ensemble,
            transit,
            session_timeout_s,
            resumed,
            faults=faults,
            pulse=pulse,
            stalls=self._stalls if pulse is not None else None,
            is_batching=is_batching,
            clock=clock,
        )

    # Session.

    @property
    def name(self) -> str:
        """Label of the metrics."""
        return self._name

    @property
    def session_id(self) -> int:
        """0 while there is none."""
        return self._session.session_id

    @property
    def ended_by(self) -> StoreError | None:
        """Why the session ended; None while requests can be sent."""
        return self._session.ended_by

    @property
    def saved_session(self) -> SavedSession:
        """What resumes the session; there is no password."""
        return self._session.saved

    @property
    def session_timeout_s(self) -> float:
        """As granted, 0 while there is no session."""
        return self._session.timeout_s

    @property
    def handshake_s(self) -> float:
        """See `MetadataStore.handshake_s`."""
        return self._session.handshake_s

    @property
    def last_zxid(self) -> int:
        """The newest zxid that any reply has shown."""
        return self._session.line.last_zxid

    @property
    def is_connected(self) -> bool:
        """Whether requests go out at once."""
        return self._session.is_connected

    async def start(self) -> None:
        """Connect in the background; `wait_connected` waits for it."""
        self._session.start()

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """See `MetadataStore.listen`."""
        return self._session.listen(listener)

    def repeat_in_stalls(self, write: StallWrite | None) -> None:
        """See `MetadataStore.repeat_in_stalls`."""
        self._stalls.write = write

    async def wait_connected(self) -> None:
        """See `MetadataStore.wait_connected`."""
        await self._session.wait_connected()

    async def close(self, *, end_session: bool = True) -> None:
        """See `MetadataStore.close`."""
        await self._session.close(end_session=end_session)

    async def least_timeouts_s(self) -> Sequence[float]:
        """Empty: these servers grant every timeout."""
        return ()

    def access_control(self, _top: str = "/") -> None:
        """Nodes in memory have no access control lists."""

    def whole_tree(self) -> None:
        """This store: there is no chroot."""

    def disconnect(self) -> None:
        """Cut the connection, and allow no other until `reconnect`."""
        self._session.disconnect()

    def reconnect(self) -> None:
        """Allow connections again."""
        self._session.reconnect()

    def give_up(self, error: StoreError) -> None:
        """End the session as a server does that refuses its credentials."""
        self._session.give_up(error)

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        validate(path)
        node: Versioned | None = await self._read(f"get {path}", lambda _, tree: tree.find(path))
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore.get_many`."""
        found = await self.read_many([Read(path) for path in paths], self._deadline_s())
        return [node if isinstance(node, Versioned) else None for node in found]

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """See `BulkStore.read_many`."""
        wanted = tuple(reads)
        for read in wanted:
            validate(read.path)
        kind = RequestKind.READ_MANY if len(wanted) > 1 else RequestKind.READ
        request = MemoryRequest(
            "readMany", lambda _, tree: [_answer(tree, read) for read in wanted], kind
        )
        try:
            answers: list[Answer] = await self._session.line.call(request, deadline_s)
        except TooLarge:
            if len(wanted) < 2:
                raise
            middle = len(wanted) // 2
            first = await self.read_many(wanted[:middle], deadline_s)
            return first + await self.read_many(wanted[middle:], deadline_s)
        return answers

    async def exists(self, path: str) -> Stat | None:
        """See `MetadataStore.exists`."""
        node = await self.get(path)
        return None if node is None else node.stat

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        validate(path)
        names: list[str] = await self._read(f"children {path}", lambda _, tree: tree.children(path))
        return names

    async def sync(self, path: str) -> None:
        """See `MetadataStore.sync`."""
        validate(path)
        await self._read(f"sync {path}", lambda _, __: None, RequestKind.SYNC)

    async def ephemerals(self, prefix: str) -> list[str]:
        """See `MetadataStore.ephemerals`."""
        validate(prefix)
        paths: list[str] = await self._read(
            "ephemerals", lambda session_id, tree: tree.ephemerals(session_id)
        )
        return [path for path in paths if is_at_or_below(prefix, path)]

    async def watch(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """See `MetadataStore.watch`."""
        validate(root)
        return await self._session.watch(root, listener, self._deadline_s())

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
        """See `MetadataStore.create`."""
        operation, deadline_s = Create(path, data, mode, ttl_ms), self._deadline_s()
        while True:
            try:
                created = await self._write(operation, deadline_s)
            except NoNode:
                if not make_parents:
                    raise
                # An empty container may be reaped before the next attempt, hence the loop.
                await self._make_containers(path, deadline_s)
            else:
                assert isinstance(created, Versioned)
                return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        stat = await self._write(SetData(path, data, version), self._deadline_s())
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        await self._write(Delete(path, version), self._deadline_s())

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore.multi`."""
        outcomes = await self._commit(tuple(operations), self._deadline_s()) if operations else ()
        return _results(outcomes)

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore.write_many`."""
        return await self._commit(tuple(operations), deadline_s)

    # Inside.

    def _deadline_s(self) -> float:
        return asyncio.get_running_loop().time() + self._operation_timeout_s

    async def _read(
        self, what: str, perform: Callable[[int, Tree], Any], kind: RequestKind = RequestKind.READ
    ) -> Any:
        return await self._session.line.call(MemoryRequest(what, perform, kind), self._deadline_s())

    async def _write(self, operation: Operation, deadline_s: float) -> Result:
        try:
            (result,) = _results(await self._commit((operation,), deadline_s))
        except MultiFailed as error:
            raise error.cause from None
        return result

    async def _commit(
        self, operations: tuple[Operation, ...], deadline_s: float
    ) -> tuple[Outcome, ...]:
        size = 0
        for operation in operations:
            # The name must be valid with the number that the server appends.
            is_numbered = isinstance(operation, Create) and operation.mode.is_sequential
            validate(operation.path + "0" if is_numbered else operation.path)
            size += len(operation.path)
            size += len(operation.data) if isinstance(operation, Create | SetData) else 0
        if size > _MOST_BYTES:
            raise TooLarge(f"{operations[0].path}: {size} bytes are beyond jute.maxbuffer")
        first = operations[0]
        what = f"{type(first).__name__} {first.path}" if len(operations) == 1 else "multi"
        request = MemoryRequest(
            what,
            lambda session_id, _: self._ensemble.write(session_id, operations),
            kind_of(operations),
            operations,
        )
        outcomes: tuple[Outcome, ...] = await self._session.line.call(request, deadline_s)
        return outcomes

    async def _make_containers(self, path: str, deadline_s: float) -> None:
        """Create the missing parents of ``path``.

        The ensemble reaps them when they become empty.
        """
        for ancestor in ancestors_of(path):
            try:
                await self._write(Create(ancestor, mode=CreateMode.CONTAINER), deadline_s)
            except (NodeExists, NoNode):
                continue  # it exists, or was reaped meanwhile: the next attempt starts over


def _answer(tree: Tree, read: Read) -> Answer:
    if read.aspect is Aspect.CHILDREN:
        return tree.children(read.path)
    node = tree.find(read.path)
    return node.stat if node is not None and read.aspect is Aspect.STAT else node


def _results(outcomes: Sequence[Outcome]) -> tuple[Result, ...]:
    results: list[Result] = []
    for outcome in outcomes:
        if isinstance(outcome, Ambiguous):
            raise outcome
        results.append(outcome)
    return tuple(results)
