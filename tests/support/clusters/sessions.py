"""A session in memory with its watcher, on which parts of the coordination are tested."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.membership.registry import lease_node
from broker_ctl.coordination.session import AuthorityMode, Grant, SessionWatcher
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock

TIMEOUT_S = 10.0
TICK_S = 1.0
LONGEST_S = 0.002


class ServerChoices(random.Random):
    """Which servers the next clients meet, by number; the leader is 0."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(0)
        self._numbers = list(numbers)

    def choice(self, seq: Any) -> Any:
        return seq[self._numbers.pop(0)] if self._numbers else super().choice(seq)


def lagging(lag_s: float) -> MemoryEnsemble:
    """The first client meets a follower that is behind, all others the leader."""
    rules = EnsembleRules(servers=2, lag=lambda: lag_s)
    return MemoryEnsemble(rules, ServerChoices(1, *[0] * 50))


class SteppableClock(LoopClock):
    """The loop's time, and whatever passed while the loop stood still."""

    def __init__(self) -> None:
        self.stalled_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.stalled_s


class Party:
    """A store, its watcher, and the events of the watcher."""

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        number: int = 0,
        *,
        mode: AuthorityMode = AuthorityMode.LEASE,
        timeout_s: float = TIMEOUT_S,
        operation_timeout_s: float = 30.0,
        store: MemoryStore | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.broker_id = f"b{number}:8080"
        self.rng = random.Random(number)
        self.longest_s = LONGEST_S
        self.clock = SteppableClock()
        self.store = store or MemoryStore(
            ensemble,
            session_timeout_s=timeout_s,
            operation_timeout_s=operation_timeout_s,
            transit=self._transit,
            clock=self.clock,
        )
        self.watcher = SessionWatcher(
            self.store,
            self.clock,
            node=lease_node(self.broker_id, f"nonce-{number}"),
            mode=mode,
            tick_s=TICK_S,
            rng=self.rng,
        )
        self.deletions = Deletions(self.store, rng=self.rng)
        self.actions: list[SessionAction] = []
        self.grants: list[Grant] = []
        self.watcher.listen(self.actions.append)
        self.watcher.listen_grants(self.grants.append)

    async def _transit(self) -> None:
        await asyncio.sleep(self.rng.uniform(0, self.longest_s))

    async def start(self) -> None:
        self.watcher.start()
        await self.store.start()
        await self.store.wait_connected()
        await self.watcher.wait_authority()

    async def close(self) -> None:
        await self.watcher.close()
        await self.deletions.close()
        await self.store.close()

    @property
    def has_authority(self) -> bool:
        return self.clock.now_s() < self.watcher.deadline_s

    def expire(self) -> None:
        """The servers end the session."""
        self.ensemble.expire(self.store.session_id)

    def blink(self) -> None:
        """The connection is cut, and another comes about at once."""
        self.store.disconnect()
        self.store.reconnect()


@asynccontextmanager
async def parties(
    count: int = 1,
    *,
    mode: AuthorityMode = AuthorityMode.LEASE,
    operation_timeout_s: float = 30.0,
    ensemble: MemoryEnsemble | None = None,
) -> AsyncIterator[list[Party]]:
    """Started parties on one ensemble."""
    ensemble = ensemble or MemoryEnsemble()
    started = [
        Party(ensemble, number, mode=mode, operation_timeout_s=operation_timeout_s)
        for number in range(count)
    ]
    try:
        for party in started:
            await party.start()
        yield started
    finally:
        for party in started:
            await party.close()
