"""A copy of a node and all below it, kept up to date: Curator's and kazoo's TreeCache."""

import asyncio
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from broker_ctl.retry import retry
from broker_ctl.store.interface import Notification, Versioned
from broker_ctl.zookeeper.changes import Changes, read_tree
from broker_ctl.zookeeper.session import ClientSession


class TreeCache:
    """The nodes by path, as they were a moment ago; ``async with`` keeps them up to date.

    `nodes` is complete from the beginning of the block on. During an outage it is as it was.
    """

    def __init__(self, client: ClientSession, path: str) -> None:
        self.path: Final = path
        self._client = client
        self._nodes: dict[str, Versioned] = {}
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    @property
    def nodes(self) -> Mapping[str, Versioned]:
        """All of them; a live view, which may change during any await."""
        return MappingProxyType(self._nodes)

    def get(self, path: str) -> Versioned | None:
        """One node, or None where there is none."""
        return self._nodes.get(path)

    def children(self, path: str) -> list[str]:
        """Sorted names of a node's children."""
        above = f"{path.rstrip('/')}/"
        below = (one[len(above) :] for one in self._nodes if one.startswith(above))
        return sorted(name for name in below if "/" not in name)

    async def wait_changed(self) -> None:
        """Return after the next change.

        Raises:
            StoreError: there will be none: the session has ended for good.
        """
        changed, following = self._changed, self._following
        assert following is not None, "use it in an async with"
        waiting = asyncio.get_running_loop().create_task(changed.wait(), name="change of a copy")
        try:
            await asyncio.wait({waiting, following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if following.done():
            following.result()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._following = loop.create_task(self._follow(), name=f"copy of {self.path}")
        try:
            await self.wait_changed()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    async def _follow(self) -> None:
        client = self._client
        async with Changes(client, self.path, is_recursive=True) as changes:
            self._nodes = await read_tree(client.store, self.path)
            self._wake()
            async for change in changes:
                await self._apply(change)
                self._wake()

    async def _apply(self, change: Notification) -> None:
        """Read the node again: it may have changed once more."""
        path = change.path
        node = await retry(
            lambda: self._client.store.get(path),
            f"cannot read {path}",
            rng=self._client.rng,
            judge=self._client.may_answer,
            level=logging.DEBUG,
        )
        if node is None:
            self._nodes.pop(path, None)
        else:
            self._nodes[path] = node

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
