"""Queues: one whose items are taken, and one whose items are held until they are done."""

import asyncio
import re
from collections.abc import Sequence
from typing import Final, Self

from broker_ctl.errors import MultiFailed, NoNode
from broker_ctl.store.interface import CreateMode, Delete, Versioned
from broker_ctl.zookeeper.changes import ChildrenWatch, Newest
from broker_ctl.zookeeper.claims import claim
from broker_ctl.zookeeper.holds import Held
from broker_ctl.zookeeper.session import ClientSession

_PRIORITY: Final = 100
_MOST_PRIORITY: Final = 999
_ENTRY: Final = re.compile(r"entry-\d{3}-\d{10}\Z")


def _entries(names: Sequence[str]) -> list[str]:
    """By priority, then by age: as their names are sorted."""
    return sorted(name for name in names if _ENTRY.match(name))


async def _put(client: ClientSession, root: str, item: bytes, priority: int) -> None:
    if not 0 <= priority <= _MOST_PRIORITY:
        raise ValueError(f"priority={priority}: 0 (first) to {_MOST_PRIORITY}")
    await client.store.create(
        f"{root}/entry-{priority:03d}-", item, CreateMode.SEQUENTIAL, make_parents=True
    )


class Queue:
    """Items by priority, then in order; each is given to one taker: kazoo's Queue.

    What was taken is gone: a taker that dies afterwards loses it. See `LockingQueue`.
    """

    def __init__(self, client: ClientSession, path: str) -> None:
        self.path: Final = path
        self._client = client

    async def put(self, item: bytes, priority: int = _PRIORITY) -> None:
        """Append an item; the smallest priority goes first, 0 to 999.

        Raises:
            Ambiguous: the reply was lost, and the item is there or not.
        """
        await _put(self._client, self.path, item, priority)

    async def size(self) -> int:
        """How many items there are."""
        return len(_entries(await self._client.store.children(self.path)))

    async def get(self, timeout_s: float | None = None) -> bytes:
        """Take the first item, as soon as there is one.

        Raises:
            TimeoutError: there was none in time.
            Ambiguous: the reply was lost, and the first item was taken by this call or by others.
        """
        async with (
            asyncio.timeout(timeout_s),
            ChildrenWatch(self._client, self.path) as watch,
        ):
            async for names in watch:
                for name in _entries(names):
                    node = await self._take(f"{self.path}/{name}")
                    if node is not None:
                        return node.data
        raise AssertionError("a watch does not end")

    async def _take(self, path: str) -> Versioned | None:
        store = self._client.store
        node = await store.get(path)
        if node is None:
            return None
        try:
            # Whoever deletes it has it.
            await store.delete(path)
        except NoNode:
            return None
        return node


class Claim:
    """An item of a `LockingQueue` that this client holds; ``async with`` gives it back unless done.

    Attributes:
        data: the item.
        held: token and end of the claim.
    """

    def __init__(self, client: ClientSession, entry: Versioned, held: Held) -> None:
        self.data: Final = entry.data
        self.held: Final = held
        self._client = client
        self._entry = entry.path

    async def done(self) -> None:
        """Remove the item: nobody else will have it.

        Raises:
            AuthorityLost: it is not held any more; another may have it.
        """
        self.held.check()
        operations = [Delete(self._entry), Delete(self.held.path)]
        try:
            await self._client.store.multi(operations)
        except MultiFailed as failed:
            if isinstance(failed.cause, NoNode):
                self.held.lose("its node was deleted")
                self.held.check()
            raise
        await self.held.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.held.release()


class LockingQueue:
    """Items by priority, then in order; each is held until it is done: kazoo's LockingQueue.

    A holder whose session ends gives its item back, so an item may be worked on twice, never lost.
    The token of a claim is larger than that of each earlier claim of the item.
    """

    def __init__(self, client: ClientSession, path: str) -> None:
        self.path: Final = path
        self._client = client
        self._items = f"{path}/entries"
        self._claims = f"{path}/taken"

    async def put(self, item: bytes, priority: int = _PRIORITY) -> None:
        """Append an item; the smallest priority goes first, 0 to 999.

        Raises:
            Ambiguous: the reply was lost, and the item is there or not.
        """
        await _put(self._client, self._items, item, priority)

    async def size(self) -> int:
        """How many items there are, held ones included."""
        return len(_entries(await self._client.store.children(self._items)))

    async def get(self, timeout_s: float | None = None) -> Claim:
        """Hold the first item that nobody holds, as soon as there is one.

        Raises:
            TimeoutError: there was none in time.
        """
        lists = Newest(self._client, self.path, self._read, is_recursive=True)
        async with asyncio.timeout(timeout_s), lists:
            async for items, taken, _ in lists:
                for name in _entries(items):
                    if name not in taken and (found := await self._hold(name)) is not None:
                        return found
        raise AssertionError("a watch does not end")

    async def _read(self) -> tuple[list[str], frozenset[str], int]:
        """Items, claims, and at which zxid the claims have changed.

        A claim that came and went leaves the same lists, and yet there is one to try for.
        """
        store = self._client.store
        stat = await store.exists(self._claims)
        taken = frozenset(await store.children(self._claims))
        return await store.children(self._items), taken, 0 if stat is None else stat.pzxid

    async def _hold(self, name: str) -> Claim | None:
        held = await claim(self._client, f"{self._claims}/{name}")
        if held is None:
            return None
        try:
            # It may have been done between the list and the claim.
            entry = await self._client.store.get(f"{self._items}/{name}")
        except BaseException:
            self._client.holds.start(held.release(), "give up a claim")
            raise
        if entry is None:
            await held.release()
            return None
        return Claim(self._client, entry, held)
