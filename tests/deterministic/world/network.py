"""The network of broker processes and their clients, in memory: frames that take a while.

An end belongs to the loop in which it was opened, and its frames arrive there: a process that is
stopped receives late. Between two hosts everything can be reset, refused or swallowed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.lab.replication.tcp import Channel, ChannelClosed, ReplicaListener

Serve = Callable[[Channel], Awaitable[None]]
_CLOSED: Final = None


class End:
    """`Channel` of one host."""

    proven_brokers = None

    def __init__(
        self, network: "MemoryNetwork", loop: asyncio.AbstractEventLoop, hosts: tuple[str, str]
    ) -> None:
        self._network = network
        self._loop = loop
        self._arrived: deque[bytes | None] = deque()
        self._news = self._loop.create_future()
        self._last_s = 0.0
        self.hosts = hosts
        self.far: End | None = None
        self.is_open = True

    async def send(self, frame: bytes) -> None:
        if not self.is_open or self.far is None:
            raise ChannelClosed("it is closed")
        if self._network.is_silent(self.hosts):
            return
        self.far.deliver(frame, self._network.delay_s())

    async def receive(self) -> bytes:
        while not self._arrived:
            if self._news.done():
                self._news = self._loop.create_future()
            await self._news
        frame = self._arrived[0]
        if frame is _CLOSED:
            raise ChannelClosed("it was closed")
        self._arrived.popleft()
        return frame

    def close(self) -> None:
        if self.is_open:
            self.shut()
            if self.far is not None and not self._network.is_silent(self.hosts):
                self.far.deliver(_CLOSED, self._network.delay_s())

    def shut(self) -> None:
        """Closed from here on, also for callers that wait."""
        self.is_open = False
        self._network.ends.pop(self, None)
        self._arrive(_CLOSED)

    def deliver(self, frame: bytes | None, delay_s: float) -> None:
        """Behind everything that is under way."""
        self._last_s = max(self._last_s, self._loop.time() + delay_s)
        self._loop.call_at(self._last_s, self._arrive, frame)

    def _arrive(self, frame: bytes | None) -> None:
        self._arrived.append(frame)
        if not self._news.done():
            self._news.set_result(None)
        if frame is _CLOSED:
            self.is_open = False
            self._network.ends.pop(self, None)


@dataclass(eq=False)
class _Listener:
    """Where a host takes connections."""

    network: "MemoryNetwork"
    host: str
    address: str
    loop: asyncio.AbstractEventLoop
    serve: Serve

    async def close(self) -> None:
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]


class MemoryNetwork:
    """All hosts together.

    Attributes:
        ends: open ones, in the order in which they were opened.
    """

    def __init__(self, delay_s: Callable[[], float]) -> None:
        self.delay_s = delay_s
        self.listeners: dict[str, _Listener] = {}
        self.ends: dict[End, None] = {}
        self._refused: set[frozenset[str]] = set()
        self._silent: set[frozenset[str]] = set()
        self._serving: dict[asyncio.Task[None], None] = {}

    def of(self, host: str) -> "HostNetwork":
        """`Network`, as one host has it."""
        return HostNetwork(self, host)

    # What goes wrong.

    def cut(self, one: str, other: str) -> None:
        """Reset what stands between two hosts, and refuse what comes."""
        self._refused.add(frozenset((one, other)))
        self._reset(frozenset((one, other)))

    def fall_silent(self, one: str, other: str) -> None:
        """Frames vanish, and neither end is notified."""
        self._silent.add(frozenset((one, other)))

    def heal(self, one: str, other: str) -> None:
        """Let pass; no stream goes on with a hole."""
        pair = frozenset((one, other))
        if pair in self._silent:
            self._reset(pair)
        self._silent.discard(pair)
        self._refused.discard(pair)

    def heal_all(self) -> None:
        """Nothing is wrong between any hosts."""
        for pair in sorted(map(sorted, self._silent | self._refused)):
            self.heal(pair[0], pair[-1])

    def drop(self, host: str) -> None:
        """The host's process is dead: nobody listens, and all that stood is reset."""
        for address, listener in list(self.listeners.items()):
            if listener.host == host:
                del self.listeners[address]
        for end in [end for end in self.ends if host in end.hosts]:
            end.shut()

    def _reset(self, pair: frozenset[str]) -> None:
        for end in [end for end in self.ends if frozenset(end.hosts) == pair]:
            end.shut()

    def is_silent(self, hosts: tuple[str, str]) -> bool:
        return frozenset(hosts) in self._silent

    # What is done.

    async def connect(self, host: str, address: str) -> End:
        await asyncio.sleep(self.delay_s())
        listener = self.listeners.get(address)
        pair = frozenset((host, "" if listener is None else listener.host))
        if listener is None or pair in self._refused or pair in self._silent:
            raise ChannelClosed(f"nobody is at {address}")
        near = End(self, asyncio.get_running_loop(), (host, listener.host))
        near.far = far = End(self, listener.loop, (listener.host, host))
        far.far = near
        self.ends |= {near: None, far: None}
        name = f"{listener.host} serves {host}"
        task = listener.loop.create_task(self._serve(listener, far), name=name)
        self._serving[task] = None
        task.add_done_callback(self._served)
        return near

    def _served(self, task: "asyncio.Task[None]") -> None:
        del self._serving[task]

    @staticmethod
    async def _serve(listener: _Listener, end: End) -> None:
        try:
            await listener.serve(end)
        finally:
            end.close()


class HostNetwork:
    """`Network` of one host."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self._network = network
        self._host = host
        self._is_pulled = False

    def pull(self) -> None:
        """It reaches nobody from here on."""
        self._is_pulled = True

    async def listen(self, address: str, serve: Serve) -> ReplicaListener:
        if address in self._network.listeners:
            raise OSError(f"{address} is taken")
        loop = asyncio.get_running_loop()
        listener = _Listener(self._network, self._host, address, loop, serve)
        self._network.listeners[address] = listener
        return listener

    async def connect(self, address: str) -> Channel:
        if self._is_pulled:
            raise ChannelClosed(f"no network to {address}")
        return await self._network.connect(self._host, address)
