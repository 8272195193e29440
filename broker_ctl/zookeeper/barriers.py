"""Barriers: one that somebody lifts, and one that so many have to reach together."""

import asyncio
from typing import Final

from broker_ctl.errors import NodeExists, NoNode, SessionExpired
from broker_ctl.retry import retry
from broker_ctl.store.interface import CreateMode
from broker_ctl.zookeeper.changes import ChildrenWatch, DataWatch
from broker_ctl.zookeeper.session import ClientSession

_READY: Final = "ready"


class Barrier:
    """A node that others wait to see gone: kazoo's Barrier, Curator's DistributedBarrier."""

    def __init__(self, client: ClientSession, path: str) -> None:
        self.path: Final = path
        self._client = client

    async def create(self) -> None:
        """Set it up; it stays, whatever becomes of this client, until `remove`."""
        try:
            await self._client.store.create(self.path, make_parents=True)
        except NodeExists:
            return

    async def remove(self) -> None:
        """Lift it: all who wait go on."""
        try:
            await self._client.store.delete(self.path)
        except NoNode:
            return

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return once there is no barrier.

        Raises:
            TimeoutError: there still is one.
        """
        async with asyncio.timeout(timeout_s), DataWatch(self._client, self.path) as states:
            async for node in states:
                if node is None:
                    return


class DoubleBarrier:
    """``count`` clients begin together, and end together: Curator's DistributedDoubleBarrier.

    Whose session ends before `enter` returns is told so (SessionExpired), and the others go on
    waiting for it to come again. ``async with`` enters and leaves.
    """

    def __init__(self, client: ClientSession, path: str, count: int) -> None:
        if count < 1:
            raise ValueError(f"count={count}: at least 1")
        self.path: Final = path
        self._client = client
        self._count = count
        self._own = f"{path}/{client.new_id()}"

    async def enter(self, timeout_s: float | None = None) -> None:
        """Return once all have come.

        Raises:
            TimeoutError: not all came in time; this client has left again.
            SessionExpired: the session ended meanwhile: enter again.
        """
        store = self._client.store
        try:
            async with asyncio.timeout(timeout_s):
                await store.create(self._own, b"", CreateMode.EPHEMERAL, make_parents=True)
                await self._wait_for_all()
        except BaseException:
            # However long the connection is away: the others would count it as one that has come.
            leaving = retry(
                self._remove_own,
                f"cannot leave {self.path}",
                rng=self._client.rng,
                judge=self._client.may_answer,
            )
            self._client.holds.start(leaving, "leave a barrier")
            raise

    async def leave(self, timeout_s: float | None = None) -> None:
        """Return once all have left.

        Raises:
            TimeoutError: not all left in time; this client has.
        """
        await self._remove_own()
        async with asyncio.timeout(timeout_s), ChildrenWatch(self._client, self.path) as watch:
            async for names in watch:
                if not set(names) - {_READY}:
                    break
        # Whoever comes next begins anew.
        try:
            await self._client.store.delete(f"{self.path}/{_READY}")
        except NoNode:
            return

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def _wait_for_all(self) -> None:
        own = self._own.rpartition("/")[2]
        async with ChildrenWatch(self._client, self.path) as watch:
            async for names in watch:
                if _READY in names:
                    return
                if own not in names:
                    raise SessionExpired(f"{self._own} is gone with its session: enter again")
                if len(names) >= self._count:
                    await self._open()
                    return

    async def _open(self) -> None:
        """Those who read the names later, when some have left again, see that all had come."""
        try:
            await self._client.store.create(f"{self.path}/{_READY}")
        except NodeExists:
            return

    async def _remove_own(self) -> None:
        try:
            await self._client.store.delete(self._own)
        except NoNode:
            return
