"""Servers in memory that notify an observer of each transaction."""

import asyncio
import random
from collections.abc import Sequence
from zlib import crc32

from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.memory_store.servers import MemoryClient
from broker_ctl.store.interface import Operation, Result
from tests.deterministic.judges.observer import Observer


class _Observed(MemoryEnsemble):
    """A `MemoryEnsemble` with an observer, in which clients write that are not brokers."""

    def __init__(
        self,
        rules: EnsembleRules,
        rng: random.Random,
        loop: asyncio.AbstractEventLoop,
        observer: Observer,
    ) -> None:
        super().__init__(rules, rng, loop)
        self._observer = observer

    def write_as_admin(self, operations: Sequence[Operation]) -> None:
        """A client that is not a broker writes."""
        self._commit(operations, 0)


class ObservedEnsemble(_Observed):
    """A `MemoryEnsemble` that notifies an observer of each transaction.

    A server that grants a shorter timeout counts with it at once. If its answer is lost, the client
    relies on the longer one: that is the limit which the documentation names (docs: lease-clock).
    """

    def __init__(
        self,
        rules: EnsembleRules,
        rng: random.Random,
        loop: asyncio.AbstractEventLoop,
        observer: Observer,
    ) -> None:
        super().__init__(rules, rng, loop, observer)
        self._is_ending = False
        self._unheard: set[int] = set()
        self.trace = 0

    def attach(self, client: MemoryClient, session_id: int, timeout_s: float) -> int:
        before_s = self.timeout_s(session_id)
        session_id = super().attach(client, session_id, timeout_s)
        if self.timeout_s(session_id) < before_s:
            self._unheard |= {session_id} - self._observer.forced
            self._observer.forced.add(session_id)
        return session_id

    def note_heard(self, session_id: int) -> None:
        """The client has the answer that names the timeout."""
        if session_id in self._unheard:
            self._unheard.remove(session_id)
            self._observer.forced.discard(session_id)

    def end(self, session_id: int) -> None:
        self._is_ending = True
        try:
            super().end(session_id)
        finally:
            self._is_ending = False

    def _commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Result, ...]:
        results = super()._commit(operations, session_id)
        entry = (self.tree.zxid, session_id, tuple(operation.path for operation in operations))
        self.trace = crc32(repr((entry, self.loop.time())).encode(), self.trace)
        self._observer.see(operations, results, session_id, self, is_expiry=self._is_ending)
        return results


class ConfigurationEnsemble(_Observed):
    """The server of a configuration store of its own, where nobody owns anything."""

    def _commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Result, ...]:
        results = super()._commit(operations, session_id)
        self._observer.note_made(operations, results)
        return results
