"""A number that all may add to, parties of members, and sets that members share among them."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Self

from broker_ctl.errors import BadVersion, NodeExists, NoNode
from broker_ctl.retry import retry
from broker_ctl.store.interface import CreateMode, SessionEvent
from broker_ctl.zookeeper.changes import ChildrenWatch
from broker_ctl.zookeeper.claims import claim
from broker_ctl.zookeeper.holds import Held
from broker_ctl.zookeeper.session import ClientSession

log = logging.getLogger(__name__)


class Counter:
    """A whole number in one node: kazoo's Counter, Curator's DistributedAtomicLong."""

    def __init__(self, client: ClientSession, path: str, start: int = 0) -> None:
        self.path: Final = path
        self._client = client
        self._start = start

    async def value(self) -> int:
        """The number as this client's server has it; ``start`` where nobody has added yet.

        Raises:
            ValueError: the node has something else.
        """
        node = await self._client.store.get(self.path)
        return self._start if node is None else _number(self.path, node.data)

    async def add(self, change: int = 1) -> int:
        """Add, and return the sum; no addition of anybody is lost.

        Raises:
            Ambiguous: the reply was lost, and the number shows no more whether it was added.
            ValueError: the node has something else than a number.
        """
        store = self._client.store
        while True:
            node = await store.get(self.path)
            before = self._start if node is None else _number(self.path, node.data)
            after = before + change
            try:
                if node is None:
                    await store.create(self.path, b"%d" % after, make_parents=True)
                else:
                    await store.set(self.path, b"%d" % after, node.stat.version)
            except (BadVersion, NodeExists, NoNode):
                # Another was faster; the server may be behind what it refused by.
                await store.sync(self.path)
                continue
            return after


def _number(path: str, data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise ValueError(f"{path} has {data[:40]!r}, which is no whole number") from None


class Party:
    """Members who are there, by ephemeral nodes: kazoo's Party, Curator's GroupMember.

    ``async with`` is a member, over any number of sessions.

    Args:
        identifier: what others see of this member.
    """

    def __init__(self, client: ClientSession, path: str, identifier: str = "") -> None:
        self.path: Final = path
        self._client = client
        self._data = identifier.encode()
        self._own = f"{path}/{client.new_id()}"
        self._is_member = False
        self._stop: Callable[[], None] | None = None

    @property
    def name(self) -> str:
        """Of the node of this member."""
        return self._own.rpartition("/")[2]

    async def join(self) -> None:
        """Be a member from now on, also in later sessions."""
        self._is_member = True
        if self._stop is None:
            self._stop = self._client.store.listen(self._on_session_event)
        await self._create()

    async def leave(self) -> None:
        """Be none."""
        self._is_member = False
        if self._stop is not None:
            self._stop()
            self._stop = None
        with contextlib.suppress(NoNode):
            await self._client.store.delete(self._own)

    async def members(self) -> list[str]:
        """The identifiers of those who are there, in the order of their nodes' names."""
        store = self._client.store
        names = await store.children(self.path)
        nodes = await store.get_many([f"{self.path}/{name}" for name in names])
        return [node.data.decode(errors="replace") for node in nodes if node is not None]

    async def __aenter__(self) -> Self:
        await self.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED:
            self._client.holds.start(self._come_again(), "join again")

    async def _come_again(self) -> None:
        await retry(
            self._create,
            f"cannot join {self.path}",
            rng=self._client.rng,
            judge=self._client.may_answer,
            level=logging.DEBUG,
        )
        if not self._is_member:
            await self.leave()

    async def _create(self) -> None:
        store = self._client.store
        while self._is_member:
            try:
                await store.create(self._own, self._data, CreateMode.EPHEMERAL, make_parents=True)
            except NodeExists:
                stat = await store.exists(self._own)
                if stat is not None and stat.ephemeral_owner != store.session_id:
                    # Of the session before, and about to go.
                    with contextlib.suppress(NoNode):
                        await store.delete(self._own)
                    continue
                if stat is None:
                    continue
            return


class SetPartitioner:
    """Items shared among members: kazoo's SetPartitioner, with a token for each item.

    Each item is held by at most one member at a time. When members come or go, each gives up what
    is no longer its share, and takes what has become its own as soon as the former holder has
    let it go, or its session has ended. ``async with`` takes part; `held` has this member's items.

    Args:
        items: the same for all members; each is a name without a slash.
        released: awaited before an item is given up for another member: stop to work on it. It is
            not called for what is lost: see `Held.lost`.
    """

    def __init__(
        self,
        client: ClientSession,
        path: str,
        items: Iterable[str],
        released: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.path: Final = path
        self.items: Final = tuple(sorted(set(items)))
        self._client = client
        self._released = released
        self._party = Party(client, f"{path}/members")
        self._held: dict[str, Held] = {}
        self._changed = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    @property
    def held(self) -> Mapping[str, Held]:
        """This member's items; check each before an act that needs it."""
        self._forget_lost()
        return MappingProxyType(self._held)

    async def wait_changed(self) -> None:
        """Return when an item was taken or given up."""
        await self._changed.wait()

    async def __aenter__(self) -> Self:
        await self._party.join()
        loop = asyncio.get_running_loop()
        self._working = loop.create_task(self._work(), name=f"share {self.path}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])
        for item in tuple(self._held):
            await self._give_up(item)
        await self._party.leave()

    async def _work(self) -> None:
        """Follow the members and the claims until cancelled."""
        async with (
            ChildrenWatch(self._client, self._party.path) as members,
            asyncio.TaskGroup() as group,
        ):
            taking: asyncio.Task[None] | None = None
            async for names in members:
                if taking is not None:
                    taking.cancel()
                    await asyncio.wait([taking])
                share = self._share_of(names)
                for item in [item for item in self.held if item not in share]:
                    await self._give_up(item)
                taking = group.create_task(self._take(share), name=f"take {self.path}")

    def _share_of(self, members: Sequence[str]) -> frozenset[str]:
        ordered = sorted(members)
        if self._party.name not in ordered:
            return frozenset()
        own = ordered.index(self._party.name)
        return frozenset(self.items[own :: len(ordered)])

    async def _take(self, share: frozenset[str]) -> None:
        """Take each item of the share as soon as nobody else has it, and again when it is lost."""
        async with ChildrenWatch(self._client, f"{self.path}/holders") as holders:
            async for _ in holders:
                for item in sorted(share - self.held.keys()):
                    held = await claim(self._client, f"{self.path}/holders/{item}")
                    if held is not None:
                        self._held[item] = held
                        self._wake()

    async def _give_up(self, item: str) -> None:
        held = self._held[item]
        if self._released is not None:
            await self._released(item)
        await held.release()
        self._held.pop(item, None)
        self._wake()

    def _forget_lost(self) -> None:
        for item in [item for item, held in self._held.items() if held.lost.is_set()]:
            del self._held[item]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
