"""The shared log: what all broker processes did, on one clock, and what it refused.

It stands for the storage behind the brokers. Each of the two guards is tested alone:

- ``lease``: an act is dated with the moment in which the broker process saw that its authority
  held, and is always accepted, whatever its token.
- ``tokens``: broker processes do not look at their authority; an act is dated when it arrives and
  refused where a higher token was seen for its hash, as BookKeeper would: by `RingTokens`, which is
  what broker processes refuse old tokens with. What was refused is kept, too, and judged.

With ``none`` of them two owners do act: so the checks can be seen to fail.
"""

import asyncio
import time
from collections.abc import Collection, Iterator
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self

from broker_ctl import codec
from broker_ctl.core.model.names import BundleRange
from broker_ctl.dataplane.bundles.bundle_table import RingTokens
from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.tasks import TaskScope

# A hash that was not served for this time had a gap; handing a bundle over takes less.
GAP_S: Final = 1.0
_NS: Final = 1_000_000_000
_LINE_BYTES: Final = 1 << 20


class Guard(StrEnum):
    """What keeps two owners apart."""

    LEASE = "lease"
    TOKENS = "tokens"
    NONE = "none"


class _Served:
    """When a hash was served: first, last, and where its gaps ended."""

    __slots__ = ("gap_ends", "last_ns")

    def __init__(self) -> None:
        self.last_ns = 0
        self.gap_ends: list[int] = []


class SharedLog:
    """A server that broker processes send their acts to. A scope."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._served: dict[int, _Served] = {}
        self._tasks = TaskScope("shared log")
        self._listener: asyncio.Server | None = None
        self._tokens = RingTokens()
        self.acts: list[ServeEvent] = []
        self.refused: list[ServeEvent] = []

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, LOOPBACK, 0, limit=_LINE_BYTES)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        await self._tasks.close()

    @property
    def port(self) -> int:
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def in_order(self) -> Iterator[ServeEvent]:
        """What was accepted, as it happened."""
        if self._guard is Guard.TOKENS:
            return iter(self.acts)
        return iter(sorted(self.acts, key=lambda act: act.t_ns))

    def unserved(self, hashes: Collection[int], now_s: float) -> list[int]:
        """Which of them were not served a moment ago."""
        since_ns = int((now_s - GAP_S) * _NS)
        return [
            position
            for position in hashes
            if position not in self._served or self._served[position].last_ns < since_ns
        ]

    def served_since(self, hashes: Collection[int], begin_s: float) -> float:
        """How long after ``begin_s`` the last of their gaps ended; they must be served now."""
        begin_ns = int(begin_s * _NS)
        ends = [self._served[position].gap_ends[-1:] for position in hashes]
        return max([0.0, *((end[0] - begin_ns) / _NS for end in ends if end)])

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, writer), "broker process")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                self._take(codec.decode_object(line))
        except OSError:
            pass  # killed
        finally:
            writer.close()

    def _take(self, said: dict[str, Any]) -> None:
        t_ns, broker = int(said["t"]), str(said["broker"])
        if self._guard is Guard.TOKENS:
            t_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for token, hashes in said["acts"]:
            accepted = [position for position in hashes if self._admit(position, token, t_ns)]
            refused = tuple(position for position in hashes if position not in accepted)
            if refused:
                self.refused.append(ServeEvent(t_ns, broker, token, refused))
            if accepted:
                self.acts.append(ServeEvent(t_ns, broker, token, tuple(accepted)))

    def _admit(self, position: int, token: int, t_ns: int) -> bool:
        # Of the topics of a run none lies at the very end of the ring.
        at = BundleRange(position, position + 1)
        if self._guard is Guard.TOKENS and token < self._tokens.highest(at):
            return False
        self._tokens.raise_to(at, token)
        served = self._served.setdefault(position, _Served())
        if t_ns - served.last_ns > GAP_S * _NS:
            served.gap_ends.append(t_ns)
        served.last_ns = max(served.last_ns, t_ns)
        return True
