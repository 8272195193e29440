"""Every way between two processes of a run, each through a proxy of its own.

The proxies live in a thread with a loop of its own: they carry on while the checker is busy.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from broker_ctl.lab.embedded.server import ServerAddress, ZooKeeperServer
from tests.support.zookeeper.ensemble import LoopThread
from tests.support.zookeeper.proxy import Loss, PeerProxy, Proxy, QuorumProxy, Way


@dataclass(frozen=True, slots=True)
class Link:
    """One way, to be used from any thread."""

    proxy: Proxy
    thread: LoopThread

    @property
    def is_passing(self) -> bool:
        proxy = self.proxy
        return proxy.way is Way.OPEN and not proxy.delay_s and not proxy.is_stalled

    async def cut(self) -> None:
        """Reset what stands, and everybody who comes, until it is healed."""
        self.proxy.way = Way.REFUSED
        await self._reset()

    def fall_silent(self) -> None:
        """Bytes vanish, and neither end is notified."""
        self.proxy.way = Way.HALF_OPEN

    def slow_down(self, delay_s: float) -> None:
        self.proxy.delay_s = delay_s

    def stall(self) -> None:
        """What clients send waits here, and goes on when the link is healed."""
        self.proxy.is_stalled = True

    def eat_reply(self, opcode: int) -> None:
        """The next request of this kind is executed; its answer is eaten, then all is reset."""
        self.proxy.lose(Loss.REPLY, opcode)

    async def heal(self) -> None:
        """Let pass. What stood while bytes vanished is reset: no stream goes on with a hole."""
        had_holes = self.proxy.way is Way.HALF_OPEN
        self.proxy.way, self.proxy.delay_s, self.proxy.is_stalled = Way.OPEN, 0.0, False
        if had_holes:
            await self._reset()

    async def _reset(self) -> None:
        async def reset() -> None:
            self.proxy.cut()

        await self.thread.call(reset())


class Links:
    """Opens links, and closes them all in the end."""

    def __init__(self) -> None:
        self._thread = LoopThread("links")
        self._scope = AsyncExitStack()
        self._peers: dict[tuple[int, int], tuple[Link, Link]] = {}
        self._clients: dict[tuple[int, int], Link] = {}

    async def __aenter__(self) -> Self:
        self._thread.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._thread.call(self._scope.aclose())
        finally:
            self._thread.__exit__(kind, error, trace)

    def seen_by(self, own: ServerAddress, peer: ServerAddress) -> ServerAddress:
        """Where server ``own`` finds ``peer``: for `Ensemble.of`."""
        quorum, election = (
            self._open(QuorumProxy, peer.quorum_port),
            self._open(PeerProxy, peer.election_port),
        )
        self._peers[own.id, peer.id] = quorum, election
        return replace(peer, quorum_port=quorum.proxy.port, election_port=election.proxy.port)

    def connect_string(self, daemon: int, servers: Sequence[ZooKeeperServer]) -> str:
        """Where daemon number ``daemon`` finds the servers."""
        for server in servers:
            self._clients[daemon, server.id] = self._open(Proxy, server.client_port)
        return ",".join(self._clients[daemon, server.id].proxy.address for server in servers)

    def of_daemon(self, daemon: int) -> list[Link]:
        return [link for (client, _), link in self._clients.items() if client == daemon]

    def between(self, one: int, other: int) -> list[Link]:
        """All that two servers say to each other."""
        return [*self._peers[one, other], *self._peers[other, one]]

    # Acknowledgements of followers.

    def _quorum_proxies(self) -> list[QuorumProxy]:
        proxies = (quorum.proxy for quorum, _ in self._peers.values())
        return [proxy for proxy in proxies if isinstance(proxy, QuorumProxy)]

    def hold_acks(self) -> None:
        """No proposal is committed until `release_acks`."""
        for proxy in self._quorum_proxies():
            proxy.holds_acks = True

    @property
    def held_zxids(self) -> set[int]:
        """Proposals that a follower has acknowledged, and the leader does not know of."""
        return {ack.zxid for proxy in self._quorum_proxies() for ack in tuple(proxy.held)}

    async def release_acks(self, up_to_zxid: int | None = None) -> None:
        """Commit all that was proposed, or up to a zxid."""

        async def release() -> None:
            for proxy in self._quorum_proxies():
                proxy.release_acks(up_to_zxid)

        await self._thread.call(release())

    @property
    def all_pass(self) -> bool:
        peers = [link for pair in self._peers.values() for link in pair]
        return all(link.is_passing for link in (*peers, *self._clients.values()))

    async def heal_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            peers = [link for pair in self._peers.values() for link in pair]
            for link in (*peers, *self._clients.values()):
                group.create_task(link.heal(), name="heal")

    def _open(self, kind: type[Proxy], port: int) -> Link:
        proxy = self._thread.run(self._scope.enter_async_context(kind.to(port)))
        return Link(proxy, self._thread)
