"""Servers are killed; how long are the sessions of their clients without a connection?"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Role, ZooKeeperServer
from broker_ctl.store.interface import SessionEvent
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.session.figures import p50_p99, quantile
from tests.support.time.waiting import PATIENCE_S, eventually

CLIENTS: Final = 24
_POLL_S: Final = 0.005
_QUIET_S: Final = 1.0


class Client:
    """A session, and when it was last lost and found."""

    def __init__(self, hosts: str) -> None:
        self.store = ZooKeeperStore(StoreOptions(hosts=hosts, session_timeout_s=10.0))
        self.suspended_s: float | None = None
        self.reconnected_s: float | None = None
        self.expired = 0
        self.store.listen(self._handle_event)

    def _handle_event(self, event: SessionEvent) -> None:
        now_s = time.monotonic()
        match event:
            case SessionEvent.SUSPENDED:
                self.suspended_s, self.reconnected_s = now_s, None
            case SessionEvent.RECONNECTED:
                self.reconnected_s = now_s
            case SessionEvent.EXPIRED:
                self.expired += 1
            case _:
                pass

    @property
    def is_back(self) -> bool:
        """Whether it has a connection: again with its session, or after its session expired."""
        is_resumed = (self.suspended_s is None) == (self.reconnected_s is None)
        return self.store.is_connected and (is_resumed or self.expired > 0)

    def __str__(self) -> str:
        return (
            f"session {self.store.session_id:#x} (connected: {self.store.is_connected}, "
            f"suspended at {self.suspended_s}, reconnected at {self.reconnected_s}, "
            f"expired {self.expired} times)"
        )

    def forget(self) -> None:
        """Before the next kill."""
        self.suspended_s = self.reconnected_s = None
        self.expired = 0


@dataclass(frozen=True, slots=True)
class _Outages:
    """What the clients of a killed server went through.

    Attributes:
        resumed: of each session that went on: seconds since the kill, and since a new leader.
        expired: sessions that the servers ended meanwhile; none, unless this machine stalls.
    """

    resumed: list[tuple[float, float]]
    expired: int


async def measure_reconnects(
    ensemble: Ensemble, kills: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Figures of killed followers, and of killed leaders."""
    clients = [Client(ensemble.connect_string) for _ in range(CLIENTS)]
    try:
        for client in clients:
            await client.store.start()
        for client in clients:
            await client.store.wait_connected()
        followers = []
        for number in range(kills):
            victim = (await ensemble.followers())[number % 2]
            followers.append(await _kill(ensemble, victim, clients))
        report_progress(f"{kills} followers were killed")
        leaders = [await _kill(ensemble, await ensemble.leader(), clients) for _ in range(kills)]
        report_progress(f"{kills} leaders were killed")
    finally:
        for client in clients:
            await client.store.close()
    after = quantile([after_s for kill in leaders for _, after_s in kill.resumed], 0.99)
    return _figures(followers), {
        **_figures(leaders),
        "after_new_leader_p99": round(after * 1000, 1),
    }


def _figures(kills: Sequence[_Outages]) -> dict[str, float]:
    outages_s = [outage_s for kill in kills for outage_s, _ in kill.resumed]
    return {**p50_p99(outages_s), "expired": sum(kill.expired for kill in kills)}


async def _kill(ensemble: Ensemble, victim: ZooKeeperServer, clients: list[Client]) -> _Outages:
    await asyncio.sleep(_QUIET_S)
    for client in clients:
        client.forget()
    is_leader = await victim.role() is Role.LEADER
    killed_s = time.monotonic()
    await victim.kill()
    led_s = await _led_s(ensemble, victim) if is_leader else killed_s

    # Followers hear of a dead leader a moment later, and close their clients' connections then.
    await asyncio.sleep(_QUIET_S)
    away = [client for client in clients if not client.is_back]
    deadline_s = time.monotonic() + PATIENCE_S
    while away and time.monotonic() < deadline_s:
        await asyncio.sleep(_POLL_S)
        away = [client for client in away if not client.is_back]
    assert not away, f"after {PATIENCE_S} s: {', '.join(map(str, away))}"
    await victim.restart()
    await eventually(ensemble.leader, what="a leader")
    resumed = [
        (client.reconnected_s - killed_s, max(0.0, client.reconnected_s - led_s))
        for client in clients
        if client.reconnected_s is not None and not client.expired
    ]
    return _Outages(resumed, sum(client.expired for client in clients))


async def _led_s(ensemble: Ensemble, dead: ZooKeeperServer) -> float:
    """When another server first says that it leads."""
    while True:
        for server in ensemble.servers:
            if server is not dead and await server.role() is Role.LEADER:
                return time.monotonic()
        await asyncio.sleep(_POLL_S)
