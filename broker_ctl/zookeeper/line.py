"""A line of contenders: ephemeral sequential nodes of one parent, as Curator and kazoo have them.

Each contender creates ``_c_ID-KIND NUMBER``; the lowest numbers are served first. The id is
Curator's protection: a create whose reply was lost is found by it, and so is a node that a former
connection creates late. Nodes of Curator and of kazoo at the same path stand in the same line.

A place is given up in every case but one: when it is held. What can go wrong, and what then:

    the reply to the create is lost      it is looked for by its id
    it comes to be twice                 the later one is removed; both go at the end
    the session expires while waiting    the node is gone: the contender stands at the end again
    somebody deletes the node            the same
    the caller gives up, or is cancelled the node is removed by a task of the client
    the connection is lost               the line is read again once there is another
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from broker_ctl.errors import Ambiguous, AuthorityLost, NoNode, SessionExpired
from broker_ctl.retry import retry
from broker_ctl.store.interface import (
    Change,
    CreateMode,
    Notification,
    RequestClass,
    requests_as,
)
from broker_ctl.zookeeper.holds import Held
from broker_ctl.zookeeper.session import ClientSession

log = logging.getLogger(__name__)

_NUMBER: Final = re.compile(r"(\d{10})\Z")

# Who has to go before a contender is served: of the names in line, and its own place there.
Ahead = Callable[[Sequence[str], int], Sequence[str]]


def in_line(names: Sequence[str]) -> list[str]:
    """The contenders among the children of a node, in the order of their numbers."""
    numbered = [(match[1], name) for name in names if (match := _NUMBER.search(name))]
    return [name for _, name in sorted(numbered)]


class PlaceLost(Exception):
    """The node of a contender is gone; it has to stand in line again."""


class Place:
    """One contender's place, in one session.

    Args:
        root: parent of the nodes.
        kind: what the names have between id and number.
        data: of the node, for others to read.
        epoch: the session: its node belongs to it, or is given up.
    """

    def __init__(
        self, client: ClientSession, root: str, kind: str, data: bytes, epoch: int
    ) -> None:
        self._client = client
        self._root = root
        self._prefix = f"_c_{client.new_id()}-{kind}"
        self._data = data
        self._epoch = epoch
        self._name = ""
        self._token = 0
        # Whether another node of this id may come to be, or be left.
        self._is_doubtful = False
        self._changed = asyncio.Event()
        self._stop_watching: Callable[[], None] | None = None
        self._held: Held | None = None

    @property
    def path(self) -> str:
        """Of its node."""
        return f"{self._root}/{self._name}"

    async def wait(self, ahead: Ahead) -> Held:
        """Stand in line until nobody is ahead.

        Raises:
            PlaceLost: stand in line again.
            StoreError: what has ended the session for good, or another refusal of the servers.
        """
        stop = self._client.store.listen(lambda _: self._changed.set())
        try:
            with requests_as(RequestClass.CONTROL):
                await self._draw()
                return await self._wait(ahead)
        except BaseException:
            self._client.holds.start(self.leave(), "leave the line")
            raise
        finally:
            stop()

    async def leave(self) -> None:
        """Remove the node; returns once it is gone, or its session is."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        with requests_as(RequestClass.CONTROL):
            await self._retry(self._remove)

    # The node.

    async def _draw(self) -> None:
        await self._retry(self._create)
        if not self._client.holds.is_current(self._epoch):
            raise PlaceLost
        self._stop_watching = await self._retry_watch(self.path, self._on_own_change)

    async def _create(self) -> None:
        store, path = self._client.store, f"{self._root}/{self._prefix}"
        if not self._client.holds.is_current(self._epoch):
            raise PlaceLost
        try:
            made = await store.create(
                path, self._data, CreateMode.EPHEMERAL_SEQUENTIAL, make_parents=True
            )
        except Ambiguous:
            self._is_doubtful = True
            await store.sync(self._root)
            own = await self._own_names()
            stat = await store.exists(f"{self._root}/{own[0]}") if own else None
            if stat is None:
                # It may still come to be, by the connection that was lost.
                raise
            self._name, self._token = own[0], stat.czxid
        except SessionExpired:
            raise PlaceLost from None
        else:
            self._name, self._token = made.path.rpartition("/")[2], made.stat.czxid

    async def _own_names(self) -> list[str]:
        names = in_line(await self._client.store.children(self._root))
        return [name for name in names if name.startswith(self._prefix)]

    async def _remove(self) -> None:
        store = self._client.store
        try:
            if self._name and not self._is_doubtful:
                await self._delete(self._name)
                return
            await store.sync(self._root)
            # Whatever session made them: the next one may have begun while a create waited.
            while own := await self._own_names():
                for name in own:
                    await self._delete(name)
        except SessionExpired:
            return
        except Ambiguous:
            self._is_doubtful = True
            await store.sync(self._root)
            raise

    async def _delete(self, name: str) -> None:
        try:
            await self._client.store.delete(f"{self._root}/{name}")
        except NoNode:
            return

    # The line.

    async def _wait(self, ahead: Ahead) -> Held:
        holds = self._client.holds
        while True:
            # Before the line is read: what changes meanwhile is looked at once more.
            self._changed.clear()
            names = in_line(await self._retry_children())
            own = [name for name in names if name.startswith(self._prefix)]
            if not own or not holds.is_current(self._epoch):
                raise PlaceLost
            if own[0] != self._name or len(own) > 1:
                await self._retry(partial(self._keep_first, own))
                continue
            waited_for = ahead(names, names.index(self._name))
            if waited_for:
                await self._wait_for_change(waited_for)
                continue
            try:
                self._held = holds.add(self.path, self._token, self._epoch, self.leave)
            except AuthorityLost:
                if await holds.wait_epoch(self._client.check_open) != self._epoch:
                    raise PlaceLost from None
                continue
            if self._stop_watching is None:
                # Its node was deleted after it was read.
                self._held.lose("its node was deleted")
                raise PlaceLost
            return self._held

    async def _keep_first(self, own: Sequence[str]) -> None:
        """A lost connection has created another node of this id: the first one counts."""
        self._is_doubtful = True
        for name in own[1:]:
            await self._delete(name)
        if own[0] == self._name:
            return
        stat = await self._client.store.exists(f"{self._root}/{own[0]}")
        if stat is None:
            return
        self._name, self._token = own[0], stat.czxid
        if self._stop_watching is not None:
            self._stop_watching()
        self._stop_watching = await self._retry_watch(self.path, self._on_own_change)

    async def _wait_for_change(self, names: Sequence[str]) -> None:
        """Return once one of them is gone, or the session has changed."""
        watched = f"{self._root}/{names[0]}" if len(names) == 1 else self._root
        stop = await self._retry_watch(watched, self._on_change_ahead)
        try:
            # They may have gone before the watch was set.
            there = set(await self._retry_children())
            if there.issuperset(names):
                await self._changed.wait()
        finally:
            stop()

    def _on_change_ahead(self, change: Notification) -> None:
        if change.change is Change.DELETED:
            self._changed.set()

    def _on_own_change(self, change: Notification) -> None:
        if change.change is not Change.DELETED or change.path != self.path:
            return
        self._changed.set()
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        if self._held is not None:
            self._held.on_change(change)

    # Over outages.

    async def _retry(self, operation: Callable[[], Awaitable[None]]) -> None:
        await retry(
            operation,
            f"cannot stand in line at {self._root}",
            rng=self._client.rng,
            judge=self._client.may_answer,
            level=logging.DEBUG,
        )

    async def _retry_children(self) -> list[str]:
        return await retry(
            lambda: self._client.store.children(self._root),
            f"cannot read {self._root}",
            rng=self._client.rng,
            judge=self._client.may_answer,
            level=logging.DEBUG,
        )

    async def _retry_watch(
        self, path: str, listener: Callable[[Notification], None]
    ) -> Callable[[], None]:
        return await retry(
            lambda: self._client.store.watch(path, listener),
            f"cannot watch {path}",
            rng=self._client.rng,
            judge=self._client.may_answer,
            level=logging.DEBUG,
        )


async def enter(
    client: ClientSession, root: str, kind: str, ahead: Ahead, data: bytes = b""
) -> Held:
    """Stand in line at ``root``, over as many sessions as it takes, until nobody is ahead.

    Raises:
        StoreError: what has ended the session for good, or another refusal of the servers.
    """
    while True:
        epoch = await client.holds.wait_epoch(client.check_open)
        try:
            return await Place(client, root, kind, data, epoch).wait(ahead)
        except PlaceLost:
            continue
