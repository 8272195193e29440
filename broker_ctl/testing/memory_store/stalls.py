"""Writes of a client whose event loop does not run, as a thread beside it sends them.

They run in the ensemble's loop. One is sent when the one before has been answered, which a real
thread does not wait for; each message takes the same time.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from broker_ctl.errors import StoreError
from broker_ctl.store.interface import StallWrite
from broker_ctl.store.zookeeper.pending import Xids
from broker_ctl.testing.memory_store.ensemble import MemoryEnsemble
from broker_ctl.testing.memory_store.servers import Server

_LOOK_S: Final = 0.1
_TRANSIT_S: Final = 0.001


class _Link(Protocol):
    """The connection of the client."""

    server: Server
    session_id: int
    xids: Xids

    @property
    def pulse_s(self) -> float | None: ...

    @property
    def is_open(self) -> bool: ...


class StallThread:
    """The thread of one connection after the other.

    Args:
        is_busy: whether the client's loop does not run.
    """

    def __init__(self, ensemble: MemoryEnsemble, is_busy: Callable[[], bool]) -> None:
        self._ensemble = ensemble
        self._is_busy = is_busy
        self.write: StallWrite | None = None

    async def run(self, link: _Link, deliver: Callable[[Callable[[], None]], object]) -> None:
        """Write until cancelled; ``deliver`` calls a function in the client's loop."""
        loop, wrote_s, was_busy = self._ensemble.loop, 0.0, False
        while True:
            await asyncio.sleep(_LOOK_S)
            is_late, was_busy = was_busy and self._is_busy(), self._is_busy()
            write, now_s = self.write, loop.time()
            is_allowed = is_late and link.pulse_s is not None and link.pulse_s >= now_s
            if write is None or not is_allowed or now_s < wrote_s + write.period_s:
                continue
            wrote_s = now_s
            if await self._is_committed(link, write):
                deliver(_report(link, write, wrote_s, loop.time()))

    async def _is_committed(self, link: _Link, write: StallWrite) -> bool:
        """Carry the write to the server and its reply back; whether it was applied."""
        await asyncio.sleep(_TRANSIT_S)
        self._ensemble.touch(link.session_id)
        await link.server.linked.wait()
        xid, proposals = link.xids.next(), self._ensemble.proposals

        def commit() -> bool:
            with contextlib.suppress(StoreError):
                self._ensemble.write(link.session_id, [write.write])
                return True
            return False

        is_held = proposals.are_held
        outcome = await proposals.propose(link.session_id, xid, commit) if is_held else commit()
        await asyncio.sleep(_TRANSIT_S)
        return outcome is True


def _report(link: _Link, write: StallWrite, sent_s: float, answered_s: float) -> Callable[[], None]:
    def report() -> None:
        # Replies of a connection that has ended are not read.
        if link.is_open:
            write.on_committed(sent_s, answered_s)

    return report
