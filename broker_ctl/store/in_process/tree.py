"""The data tree of a ZooKeeper server: transactions on immutable nodes (docs: zookeeper-wire).

The in-process store keeps its nodes in one, and so does each server of the ensemble in memory.

A transaction works on a draft. When one operation fails the draft is dropped, so there is nothing
to roll back; the transaction still consumes a zxid, as on a real server.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from broker_ctl.errors import (
    BadVersion,
    InvalidPath,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    StoreError,
)
from broker_ctl.store.interface import (
    ANY_VERSION,
    Change,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    Operation,
    Result,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import ROOT, name_of, parent_of

# A zxid is the leader's epoch and a counter: beyond 32 bits from the start.
_FIRST_ZXID: Final = 1 << 32
_MOST_TTL_MS: Final = (1 << 40) - 1
# Time to live of a container, which is reaped when it has no children any more.
_CONTAINER_TTL_MS: Final = 0


def _time_to_live_ms(operation: Create) -> int | None:
    """Time after which the server reaps an empty node; None: never."""
    if operation.mode is CreateMode.CONTAINER:
        return _CONTAINER_TTL_MS
    if operation.mode is not CreateMode.TTL:
        return None
    if not 0 < operation.ttl_ms <= _MOST_TTL_MS:
        raise InvalidPath(f"{operation.path}: a time to live of {operation.ttl_ms} ms")
    return operation.ttl_ms


@dataclass(frozen=True, slots=True)
class Committed:
    """The effects of a transaction, which the leader sends to the followers.

    Attributes:
        results: one per operation.
        notifications: events for watches.
        touched: the changed nodes; None for a deleted one.
        ttls_ms: see `Tree.reapable`; None for a node that is never reaped.
    """

    zxid: int
    results: tuple[Result, ...]
    notifications: tuple[Notification, ...]
    touched: Mapping[str, Versioned | None]
    ttls_ms: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Author:
    """The session that commits a transaction, and the time."""

    session_id: int
    now_ms: int


class Tree:
    """All nodes of a server."""

    def __init__(self) -> None:
        stat = Stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        self._nodes = {ROOT: Versioned(ROOT, b"", stat)}
        self._children: dict[str, set[str]] = {ROOT: set()}
        self._ephemerals: dict[int, set[str]] = {}
        self._ttls_ms: dict[str, int] = {}
        self.zxid = _FIRST_ZXID

    def copy(self) -> "Tree":
        """Another tree with the same nodes, which are immutable."""
        other = Tree()
        other._nodes = dict(self._nodes)
        other._children = {path: set(names) for path, names in self._children.items()}
        other._ephemerals = {owner: set(paths) for owner, paths in self._ephemerals.items()}
        other._ttls_ms = dict(self._ttls_ms)
        other.zxid = self.zxid
        return other

    def nodes(self) -> Iterator[Versioned]:
        """All nodes, in the order of their paths."""
        for path in sorted(self._nodes):
            yield self._nodes[path]

    def load(self, nodes: Iterable[Versioned], zxid: int) -> None:
        """Take nodes over as they are; their parents are among them or there already."""
        for node in sorted(nodes):
            self._put(node.path, node)
        self.zxid = max(self.zxid, zxid)

    def forget(self, gone: Sequence[str]) -> None:
        """Drop nodes without a trace, as if they had never been there."""
        for path in gone:
            self._put(path, None)
            self._ttls_ms.pop(path, None)

    def with_changes(self, committed: Committed) -> Iterator[Versioned]:
        """All nodes, in the order of their paths, as they are once it is applied."""
        nodes = {**self._nodes, **committed.touched}
        for path in sorted(nodes):
            if (node := nodes[path]) is not None:
                yield node

    def find(self, path: str) -> Versioned | None:
        """The node, or None."""
        return self._nodes.get(path)

    def children(self, path: str) -> list[str]:
        """Sorted names of the children; empty where there is no node."""
        return sorted(self._children.get(path, ()))

    def ephemerals(self, session_id: int) -> list[str]:
        """Sorted paths of a session's ephemeral nodes."""
        return sorted(self._ephemerals.get(session_id, ()))

    def reapable(self, now_ms: int) -> list[str]:
        """Containers that had children and have none, and TTL nodes whose time is over."""
        return [
            path for path, ttl_ms in self._ttls_ms.items() if self._is_over(path, ttl_ms, now_ms)
        ]

    def _is_over(self, path: str, ttl_ms: int, now_ms: int) -> bool:
        stat = self._nodes[path].stat
        if stat.children_count:
            return False
        if ttl_ms == _CONTAINER_TTL_MS:
            return stat.cversion > 0
        return now_ms - stat.mtime_ms > ttl_ms

    def commit(self, operations: Sequence[Operation], author: Author) -> Committed:
        """Commit all operations at one zxid.

        Raises:
            MultiFailed: the first that failed; the tree is as it was.
        """
        committed = self.prepare(operations, author)
        self.apply(committed)
        return committed

    def prepare(self, operations: Sequence[Operation], author: Author) -> Committed:
        """Work out a transaction; the nodes stay as they are until it is applied.

        Raises:
            MultiFailed: the first that failed.
        """
        self.zxid += 1
        draft = _Draft(self, author)
        results: list[Result] = []
        for index, operation in enumerate(operations):
            try:
                results.append(draft.perform(operation))
            except StoreError as cause:
                raise MultiFailed(index, operation.path, cause) from cause
        return Committed(
            self.zxid, tuple(results), tuple(draft.notifications), draft.touched, draft.ttls_ms
        )

    def apply(self, committed: Committed) -> None:
        """Apply a committed transaction, of this or another server."""
        self.zxid = committed.zxid
        for path, node in committed.touched.items():
            self._put(path, node)
        for path, ttl_ms in committed.ttls_ms.items():
            self._ttls_ms.pop(path, None)
            if ttl_ms is not None:
                self._ttls_ms[path] = ttl_ms

    def _put(self, path: str, node: Versioned | None) -> None:
        before = self._nodes.pop(path, None)
        siblings = self._children.get(parent_of(path), set())
        if before is not None and before.stat.is_ephemeral:
            owned = self._ephemerals[before.stat.ephemeral_owner]
            owned.discard(path)
            if not owned:
                del self._ephemerals[before.stat.ephemeral_owner]
        if node is None:
            self._children.pop(path, None)
            siblings.discard(name_of(path))
            return
        self._nodes[path] = node
        self._children.setdefault(path, set())
        if path != ROOT:
            siblings.add(name_of(path))
        if node.stat.is_ephemeral:
            self._ephemerals.setdefault(node.stat.ephemeral_owner, set()).add(path)


class _Draft:
    """The changes of a transaction; each operation sees the earlier ones."""

    def __init__(self, tree: Tree, author: Author) -> None:
        self._tree = tree
        self._author = author
        self.touched: dict[str, Versioned | None] = {}
        self.ttls_ms: dict[str, int | None] = {}
        self.notifications: list[Notification] = []

    def perform(self, operation: Operation) -> Result:
        match operation:
            case Create():
                return self._create(operation)
            case SetData():
                return self._set(operation)
            case Delete():
                self._delete(operation)
            case Check():
                self._require_version(operation.path, operation.version)
        return None

    def _create(self, operation: Create) -> Versioned:
        parent = self._require(parent_of(operation.path))
        path = operation.path
        if operation.mode.is_sequential:
            # cversion counts creations and deletions, so this counts the creations.
            path += f"{(parent.stat.cversion + parent.stat.children_count) // 2:010d}"
        if self._find(path) is not None:
            raise NodeExists(path)
        if parent.stat.is_ephemeral:
            raise InvalidPath(f"{path}: the parent is ephemeral and can have no children")
        zxid, now_ms = self._tree.zxid, self._author.now_ms
        # Clients see an owner for ephemerals only; containers and TTL nodes look like any other.
        owner = self._author.session_id if operation.mode.is_ephemeral else 0
        size = len(operation.data)
        stat = Stat(zxid, zxid, now_ms, now_ms, 0, 0, 0, owner, size, 0, zxid)
        node = Versioned(path, operation.data, stat)
        self.touched[path] = node
        self.ttls_ms[path] = _time_to_live_ms(operation)
        self._count_child(path, 1)
        self._notify(Change.CREATED, path)
        return node

    def _set(self, operation: SetData) -> Stat:
        node = self._require_version(operation.path, operation.version)
        stat = node.stat._replace(
            mzxid=self._tree.zxid,
            mtime_ms=self._author.now_ms,
            version=node.stat.version + 1,
            data_length=len(operation.data),
        )
        self.touched[operation.path] = Versioned(operation.path, operation.data, stat)
        self._notify(Change.MODIFIED, operation.path)
        return stat

    def _delete(self, operation: Delete) -> None:
        path = operation.path
        if path == ROOT:
            raise InvalidPath("the root cannot be deleted")
        node = self._require_version(path, operation.version)
        if node.stat.children_count:
            raise NotEmpty(path)
        self.touched[path] = self.ttls_ms[path] = None
        self._count_child(path, -1)
        self._notify(Change.DELETED, path)

    def _count_child(self, path: str, change: int) -> None:
        parent = self._require(parent_of(path))
        stat = parent.stat._replace(
            cversion=parent.stat.cversion + 1,
            children_count=parent.stat.children_count + change,
            pzxid=self._tree.zxid,
        )
        self.touched[parent.path] = parent._replace(stat=stat)

    def _find(self, path: str) -> Versioned | None:
        return self.touched[path] if path in self.touched else self._tree.find(path)

    def _require(self, path: str) -> Versioned:
        node = self._find(path)
        return node if node is not None else _missing(path)

    def _require_version(self, path: str, version: int) -> Versioned:
        node = self._require(path)
        if version not in {ANY_VERSION, node.stat.version}:
            raise BadVersion(f"{path}: version {node.stat.version}, not {version}")
        return node

    def _notify(self, change: Change, path: str) -> None:
        # A recursive watch gets an event for each node, but none for changed children of a parent.
        self.notifications.append(Notification(change, path, self._tree.zxid))


def _missing(path: str) -> NoReturn:
    raise NoNode(path)
