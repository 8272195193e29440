"""The embedded ZooKeeper for tests, apart from the loops that the tests run in.

The servers are children of one thread with a loop of its own, so that one ensemble serves tests
with different loops, and a test that blocks its loop does not block the servers' owner.
"""

import asyncio
import secrets
import shutil
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kazoo.client import KazooClient

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Role, ZooKeeperServer
from tests.support.time.waiting import eventually

_T = TypeVar("_T")


class LoopThread:
    """A thread that runs an event loop until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` there and block until it is done."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` there; the caller's own loop goes on."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


class SharedServer:
    """One server of a `SharedEnsemble`; to be used from any loop."""

    def __init__(self, server: ZooKeeperServer, thread: LoopThread) -> None:
        self._server = server
        self._thread = thread

    @property
    def id(self) -> int:
        return self._server.id

    @property
    def client_port(self) -> int:
        return self._server.client_port

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    async def role(self) -> Role | None:
        return await self._thread.call(self._server.role())

    async def stop(self) -> None:
        await self._thread.call(self._server.stop())

    async def kill(self) -> None:
        await self._thread.call(self._server.kill())

    async def restart(self) -> None:
        await self._thread.call(self._server.restart())

    def pause(self) -> None:
        self._server.pause()

    def resume(self) -> None:
        self._server.resume()


class SharedEnsemble:
    """A running ensemble; to be used from any loop."""

    def __init__(self, ensemble: Ensemble, thread: LoopThread) -> None:
        self._ensemble = ensemble
        self._thread = thread
        self.connect_string = ensemble.connect_string
        self.servers = tuple(SharedServer(server, thread) for server in ensemble.servers)

    async def leader(self) -> SharedServer:
        """Wait until a server leads, and say which."""
        return await eventually(self._leader, what="a server leads")

    async def _leader(self) -> SharedServer | None:
        for server in self.servers:
            if await server.role() in (Role.LEADER, Role.STANDALONE):
                return server
        return None

    async def followers(self) -> tuple[SharedServer, ...]:
        """The servers that follow now."""
        return tuple([server for server in self.servers if await server.role() is Role.FOLLOWER])

    def heal(self) -> None:
        """Have all servers run and serve again, whatever a test did to them. Blocks."""
        self._thread.run(self._heal())

    async def _heal(self) -> None:
        for server in self._ensemble.servers:
            server.resume()
            if not server.is_running:
                await server.start()
        for server in self._ensemble.servers:
            await server.wait_serving()


@contextmanager
def shared_ensemble(directory: Path, size: int) -> Iterator[SharedEnsemble]:
    """Run an ensemble below ``directory``, which is removed with it."""
    with LoopThread("embedded ZooKeeper") as thread:
        # A server keeps the last 500 transactions in memory, and some tests write 500 kB in each.
        ensemble = Ensemble.of(directory, servers=size, heap_mb=512)
        thread.run(ensemble.start())
        try:
            yield SharedEnsemble(ensemble, thread)
        finally:
            thread.run(ensemble.stop())
            shutil.rmtree(directory)


@contextmanager
def fresh_chroot(connect_string: str) -> Iterator[str]:
    """A new node of the name ``/t-...``, removed with all that is in it."""
    client = KazooClient(connect_string)
    client.start()
    try:
        path = f"/t-{secrets.token_hex(6)}"
        client.create(path)
        try:
            yield path
        finally:
            client.delete(path, recursive=True)
    finally:
        client.stop()
        client.close()
