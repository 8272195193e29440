"""Brokers that promise each other, over one ensemble in memory and a network that can be cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.coordination.failsafe.authority import ServingAuthority
from broker_ctl.coordination.failsafe.membership import Membership
from broker_ctl.coordination.failsafe.promises import Promises
from broker_ctl.coordination.failsafe.rounds import PromiseRounds
from broker_ctl.core.failsafe.promises import Situation
from broker_ctl.core.model.commands import Command, Reply, RequestPromise
from broker_ctl.errors import NotAdmitted, PeerUnreachable
from broker_ctl.testing.memory_store.ensemble import MemoryEnsemble
from tests.support.clusters.sessions import Party


class Member(Party):
    """One broker.

    Attributes:
        is_acquiring: what it says of itself.
        asked: who was asked, and whether that broker promised.
        deaf: brokers that do not answer this one.
        lag_s: how long a request takes to arrive.
    """

    def __init__(self, ensemble: MemoryEnsemble, number: int, others: dict[str, "Member"]) -> None:
        super().__init__(ensemble, number)
        others[self.broker_id] = self
        self.others = others
        self.is_acquiring = False
        self.asked: list[tuple[str, bool]] = []
        self.deaf: set[str] = set()
        self.lag_s = 0.001
        self.authority = ServingAuthority(self.watcher, self.clock)
        self.promises = Promises(self.clock, self._situation)
        self.membership = Membership(self.store, self.broker_id, self.promises, rng=self.rng)
        self.rounds = PromiseRounds(
            broker_id=self.broker_id,
            authority=self.authority,
            members=lambda: self.membership.members,
            peers=self,
            clock=self.clock,
        )

    def _situation(self) -> Situation:
        return Situation(self.membership.members, self.authority.has_store, self.is_acquiring)

    async def start(self) -> None:
        await super().start()
        await self.membership.start()
        self.rounds.start()

    async def close(self) -> None:
        await self.rounds.close()
        await self.membership.close()
        await super().close()

    async def send(self, broker_id: str, command: Command, timeout_s: float) -> Reply:
        """As `Peers.send`."""
        assert isinstance(command, RequestPromise)
        await asyncio.sleep(self.lag_s)
        if broker_id in self.deaf:
            await asyncio.sleep(timeout_s)
            raise PeerUnreachable(f"{broker_id}: no answer")
        reply = self.others[broker_id].promises.give(command)
        self.asked.append((broker_id, bool(reply["promised"])))
        return reply

    @property
    def may_serve(self) -> bool:
        return self.clock.now_s() < self.authority.deadline_s

    @property
    def may_acquire(self) -> bool:
        try:
            self.membership.require()
        except NotAdmitted:
            return False
        return True


@asynccontextmanager
async def members(count: int = 3) -> AsyncIterator[list[Member]]:
    """The brokers, all of them admitted."""
    ensemble, others = MemoryEnsemble(), dict[str, Member]()
    made = [Member(ensemble, number, others) for number in range(count)]
    try:
        async with asyncio.TaskGroup() as group:
            for member in made:
                group.create_task(member.start())
        for member in made:
            await member.membership.wait()
        yield made
    finally:
        for member in made:
            await member.close()
