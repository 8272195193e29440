"""Servers are killed under a store: how long requests wait, and that the session survives.

Times are printed, and never fail the test: the machine may be busy with other things. The number
of kills is 20 unless BROKER_CTL_SERVER_KILLS says otherwise; half of them hit the leader.
"""

import asyncio
import json
import os
import statistics
import sys
from dataclasses import dataclass, field

import pytest

from broker_ctl.lab.embedded.server import Role
from broker_ctl.store.interface import CreateMode, Notification, SessionEvent
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble, SharedServer

ROUNDS = max(1, int(os.environ.get("BROKER_CTL_SERVER_KILLS", "20")) // 2)
EPHEMERALS = [f"/owned/{number}" for number in range(5)]


@dataclass
class Victim:
    """A store whose session has ephemeral nodes and a watch to lose."""

    store: ZooKeeperStore
    ensemble: SharedEnsemble
    session_id: int
    events: list[SessionEvent] = field(default_factory=list)
    heard: list[Notification] = field(default_factory=list)
    kills: int = 0

    async def settle(self) -> None:
        await self.store.create("/owned")
        await self.store.create("/watched")
        for path in EPHEMERALS:
            await self.store.create(path, b"", CreateMode.EPHEMERAL)
        self.store.listen(self.events.append)
        await self.store.watch("/watched", self.heard.append)

    def server(self) -> SharedServer:
        connection = self.store._session._connection
        assert connection is not None
        assert connection.stream._transport is not None
        port = connection.stream._transport.get_extra_info("peername")[1]
        return next(server for server in self.ensemble.servers if server.client_port == port)

    async def move_to(self, server: SharedServer) -> None:
        while self.server() is not server:
            self.store.abort_connection()
            await eventually(lambda: not self.store.is_connected, poll_s=0)
            await self.store.wait_connected()
        self.events.clear()

    async def answered(self) -> float:
        """The time of the first answer to a write made after the connection was lost."""
        await eventually(lambda: self.events, poll_s=0.001)
        await self.store.set("/watched", b"")
        return asyncio.get_running_loop().time()

    async def check(self) -> None:
        """Check that the session is the same, and owns what it owned."""
        self.kills += 1
        assert self.store.session_id == self.session_id
        assert set(self.events) == {SessionEvent.SUSPENDED, SessionEvent.RECONNECTED}
        assert await self.store.ephemerals("/") == EPHEMERALS
        for node in await self.store.get_many(EPHEMERALS):
            assert node is not None
            assert node.stat.ephemeral_owner == self.session_id
        heard = len(self.heard)
        await self.store.set("/watched", b"")
        assert len(self.heard) == heard + 1


async def kill_follower(victim: Victim) -> float:
    """Seconds from the kill to the next answer."""
    followers = await eventually(victim.ensemble.followers)
    server = followers[victim.kills % len(followers)]
    await victim.move_to(server)
    began_s = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        answered = tasks.create_task(victim.answered(), name="answered")
        tasks.create_task(server.kill(), name="kill")
    await victim.check()
    await server.restart()
    return answered.result() - began_s


async def kill_leader(victim: Victim) -> tuple[float, float]:
    """Seconds from the kill until a new leader serves, and from then to the next answer."""
    server = await victim.ensemble.leader()
    await victim.move_to(server)
    began_s = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        answered = tasks.create_task(victim.answered(), name="answered")
        await server.kill()
        others = [other for other in victim.ensemble.servers if other is not server]
        led = tasks.create_task(leads(others), name="new leader")
    await victim.check()
    await server.restart()
    return led.result() - began_s, answered.result() - led.result()


async def leads(servers: list[SharedServer]) -> float:
    """The time at which one of them answered that it leads."""

    async def one_leads() -> bool:
        async with asyncio.TaskGroup() as tasks:
            roles = [tasks.create_task(server.role(), name="role") for server in servers]
        return any(role.result() is Role.LEADER for role in roles)

    await eventually(one_leads, poll_s=0.002)
    return asyncio.get_running_loop().time()


def median_ms(times_s: list[float]) -> int:
    return round(statistics.median(times_s) * 1000)


@pytest.mark.slow
async def test_a_killed_server_costs_neither_the_session_nor_what_it_owns(
    open_store: OpenStore,
    ensemble3: SharedEnsemble,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = StoreOptions("", session_timeout_s=10.0, operation_timeout_s=10.0)
    store = await open_store(ensemble3.connect_string, options)
    victim = Victim(store, ensemble3, store.session_id)
    await victim.settle()
    followers_s, elections_s, leaders_s = [], [], []
    for _ in range(ROUNDS):
        followers_s.append(await kill_follower(victim))
        election_s, leader_s = await kill_leader(victim)
        elections_s.append(election_s)
        leaders_s.append(leader_s)
    figures = {
        "kills": victim.kills,
        "follower_killed_to_answer_median_ms": median_ms(followers_s),
        "follower_killed_to_answer_max_ms": round(max(followers_s) * 1000),
        "leader_killed_to_new_leader_median_ms": median_ms(elections_s),
        "new_leader_to_answer_median_ms": median_ms(leaders_s),
        "new_leader_to_answer_max_ms": round(max(leaders_s) * 1000),
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{json.dumps(figures)}\n")
