"""A store whose reads are counted, held up, answered with the past, or failed."""

import asyncio

from broker_ctl.errors import StoreError
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store.interface import Versioned


class SteeredStore(MemoryStore):
    """Answers a read with the state at its start, and only once the gate is open."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: StoreError | None = None
        self.lagging: Versioned | None = None

    async def get(self, path: str) -> Versioned | None:
        self.reads += 1
        node = await super().get(path)
        await self._let()
        return self.lagging or node

    async def children(self, path: str) -> list[str]:
        self.reads += 1
        names = await super().children(path)
        await self._let()
        return names

    async def _let(self) -> None:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
