"""Changes of nodes as something to iterate, over reconnects and expiries.

A server notifies only who is connected: what happens meanwhile is never replayed. So after each
reconnect the nodes are read again, and whatever differs from what was handed out last is handed
out now. Several changes of one node during an outage may be one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, Self, TypeVar

from broker_ctl.retry import retry
from broker_ctl.store.interface import (
    Change,
    MetadataStore,
    Notification,
    SessionEvent,
    Versioned,
)
from broker_ctl.store.path_rules import parent_of
from broker_ctl.zookeeper.events import Inbox
from broker_ctl.zookeeper.session import ClientSession

_T = TypeVar("_T")

_MOST_WAITING: Final = 10_000
_READ_AT_ONCE: Final = 128
_UNKNOWN_ZXID: Final = -1


class _Known(NamedTuple):
    """What was handed out of a node: the zxids of its creation and of its newest change."""

    czxid: int
    mzxid: int


async def read_tree(store: MetadataStore, root: str) -> dict[str, Versioned]:
    """The node and all below it, as they are while they are read."""
    found: dict[str, Versioned] = {}
    waiting = deque([root])
    while waiting:
        paths = [waiting.popleft() for _ in range(min(_READ_AT_ONCE, len(waiting)))]
        for node in await store.get_many(paths):
            if node is None:
                continue
            found[node.path] = node
            if node.stat.children_count:
                base = node.path.rstrip("/")
                waiting += [f"{base}/{name}" for name in await store.children(node.path)]
    return found


class Changes:
    """Changes of ``root``, and where it is recursive of all below it.

    Use it as ``async with client.watch(path) as changes: async for change in changes``. Every
    change after the beginning of the block is handed out, in order: CREATED, DELETED, MODIFIED,
    and of a node that is watched alone CHILDREN_CHANGED. Who is behind by 10,000 changes is given
    what differs, as after a reconnect. Servers before 3.9 do not say at which zxid a change
    happened; then one may come twice after a reconnect.

    The iteration raises what ended the session for good: `StoreClosed`, `AuthFailed`.
    """

    def __init__(self, client: ClientSession, root: str, *, is_recursive: bool) -> None:
        self._client = client
        self._root = root
        self._is_recursive = is_recursive
        self._known: dict[str, _Known] = {}
        self._children: frozenset[str] = frozenset()
        self._inbox: Inbox[Notification] = Inbox(_MOST_WAITING)
        self._is_stale = False
        self._stops: list[Callable[[], None]] = []
        self._differences: deque[Notification] = deque()

    async def __aenter__(self) -> Self:
        store = self._client.store
        self._stops.append(store.listen(self._on_session_event))
        try:
            self._stops.append(await store.watch(self._root, self._on_change))
            await self._read()
        except BaseException:
            self._stop()
            raise
        self._differences.clear()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for stop in self._stops:
            stop()
        self._stops.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        while True:
            if self._differences:
                return self._differences.popleft()
            self._client.check_open()
            if self._is_stale or self._inbox.has_overflowed:
                await self._read_again()
            elif len(self._inbox):
                change = self._inbox.take()
                if self._is_new(change):
                    return change
            else:
                await self._inbox.wait()

    # Listeners.

    def _on_change(self, change: Notification) -> None:
        path = change.path
        if self._is_recursive or path == self._root:
            self._inbox.put(change)
        elif parent_of(path) == self._root and change.change is not Change.MODIFIED:
            # A watch on one node tells of its children that they have changed.
            self._inbox.put(change)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            self._is_stale = True
        self._inbox.wake()

    # What was handed out.

    def _is_new(self, change: Notification) -> bool:
        """Whether it was not handed out yet; remembers it."""
        kind, path, zxid = change
        if not self._is_recursive and path != self._root:
            return self._is_new_child(kind, path)
        known = self._known.get(path)
        is_dated = zxid != _UNKNOWN_ZXID
        if known is not None and is_dated and zxid <= known.mzxid:
            return False
        if kind is Change.DELETED:
            if known is None and is_dated:
                return False
            self._known.pop(path, None)
            return True
        created = zxid if kind is Change.CREATED or known is None else known.czxid
        self._known[path] = _Known(created, zxid)
        return True

    def _is_new_child(self, kind: Change, path: str) -> bool:
        name = path.rpartition("/")[2]
        is_there = name in self._children
        if (kind is Change.CREATED) is is_there:
            return False
        self._children = self._children ^ {name}
        self._differences.append(Notification(Change.CHILDREN_CHANGED, self._root, _UNKNOWN_ZXID))
        return False

    async def _read_again(self) -> None:
        await retry(
            self._read,
            f"cannot read {self._root} again",
            rng=self._client.rng,
            judge=self._client.may_answer,
            level=logging.DEBUG,
        )

    async def _read(self) -> None:
        """Read what there is, and take down what differs."""
        # What comes during the reads is looked at afterwards, against what they have found.
        self._is_stale = self._inbox.has_overflowed = False
        self._inbox.clear()
        try:
            await self._compare()
        except BaseException:
            self._is_stale = True
            raise

    async def _compare(self) -> None:
        store, root = self._client.store, self._root
        if self._is_recursive:
            nodes = await read_tree(store, root)
        else:
            node = await store.get(root)
            nodes = {} if node is None else {root: node}
            children = frozenset(await store.children(root))
            if children != self._children:
                self._children = children
                self._differences.append(Notification(Change.CHILDREN_CHANGED, root, _UNKNOWN_ZXID))
        now = {path: _Known(one.stat.czxid, one.stat.mzxid) for path, one in nodes.items()}
        before, self._known = self._known, now
        gone = [path for path, was in before.items() if now.get(path, was).czxid != was.czxid]
        gone += [path for path in before if path not in now]
        for path in sorted(gone, reverse=True):
            self._differences.append(Notification(Change.DELETED, path, _UNKNOWN_ZXID))
        for path, known in now.items():
            was = before.get(path)
            if was is None or was.czxid != known.czxid:
                self._differences.append(Notification(Change.CREATED, path, known.czxid))
            elif was.mzxid != known.mzxid:
                self._differences.append(Notification(Change.MODIFIED, path, known.mzxid))


class Newest(Generic[_T]):
    """The newest state of something, each time that it differs from the one before.

    States that follow each other faster than they are read are left out, the newest never.

    Args:
        root: where a change makes the state be read again.
        read: reads it.
        is_recursive: whether changes below the children count.
    """

    def __init__(
        self,
        client: ClientSession,
        root: str,
        read: Callable[[], Awaitable[_T]],
        *,
        is_recursive: bool = False,
    ) -> None:
        self._is_recursive = is_recursive
        self._client = client
        self._root = root
        self._read = read
        self._last: _T | None = None
        self._is_first = True
        self._is_dirty = True
        self._wake = asyncio.Event()
        self._stops: list[Callable[[], None]] = []

    async def __aenter__(self) -> Self:
        store = self._client.store
        self._stops.append(store.listen(lambda _: self._mark()))
        try:
            self._stops.append(await store.watch(self._root, self._on_change))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for stop in self._stops:
            stop()
        self._stops.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        while True:
            self._client.check_open()
            if not self._is_dirty:
                self._wake.clear()
                await self._wake.wait()
                continue
            # Before the read: what changes meanwhile is read once more.
            self._is_dirty = False
            state = await self._read_once()
            if self._is_first or state != self._last:
                self._is_first, self._last = False, state
                return state

    async def _read_once(self) -> _T:
        try:
            return await retry(
                self._read,
                f"cannot read {self._root}",
                rng=self._client.rng,
                judge=self._client.may_answer,
                level=logging.DEBUG,
            )
        except BaseException:
            self._is_dirty = True
            raise

    def _on_change(self, change: Notification) -> None:
        if self._is_recursive or self._root in {change.path, parent_of(change.path)}:
            self._mark()

    def _mark(self) -> None:
        self._is_dirty = True
        self._wake.set()


class DataWatch(Newest[Versioned | None]):
    """A node, or None where there is none: as it is, and then whenever it is another.

    Use it as ``async with DataWatch(client, path) as states: async for node in states``. As
    kazoo's DataWatch and Curator's NodeCache.
    """

    def __init__(self, client: ClientSession, path: str) -> None:
        super().__init__(client, path, lambda: client.store.get(path))


class ChildrenWatch(Newest[list[str]]):
    """The sorted names of a node's children: as they are, and then whenever they are others.

    As kazoo's ChildrenWatch; a node that does not exist has none.
    """

    def __init__(self, client: ClientSession, path: str) -> None:
        super().__init__(client, path, lambda: client.store.children(path))
