"""Clients of all topics: one whose topic is closed looks it up, until it is served again."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any, Final

from broker_ctl import codec
from broker_ctl.core.model.names import RING_HIGH, Topic
from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.tasks import TaskScope
from tests.benchmarks.rollouts.gaps import Gaps
from tests.support.daemon.running_daemons import look_up

_NS: Final = 1_000_000_000
_LOOK_S: Final = 0.05
# Two ticks of a data plane: what is not served for longer is closed.
_CLOSED_NS: Final = 200_000_000
# Back-off of a client, doubled each time.
_AGAIN_S: Final = 0.1
_MOST_AGAIN_S: Final = 1.0
# A log is read at once; after this time the events of all logs are in order.
_SETTLED_NS: Final = 1_000_000_000
_AT_ONCE: Final = 32
# After the start, until figures are gathered.
PRELUDE_S: Final = 1.0


class _Log:
    """The serve log of one daemon, as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def read(self) -> list[ServeEvent]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            lines = file.read()
        whole = lines.rfind(b"\n") + 1
        self._offset += whole
        rows = map(codec.decode_object, lines[:whole].splitlines())
        return [
            ServeEvent(row["t"], row["broker"], row["token"], tuple(row["hashes"])) for row in rows
        ]


class Publishers:
    """All clients of one run; `run` ends with the task in which it is.

    Attributes:
        lookups: requests of clients whose topic was closed.
    """

    def __init__(
        self,
        http: HttpClient,
        daemons: Sequence[DaemonProcess],
        topics: Mapping[int, Topic],
        bundles: int,
    ) -> None:
        """``topics``: one of each bundle, by the bundle's number on an even ring."""
        self._http = http
        self._daemons = daemons
        self._topics = topics
        self._bundles = bundles
        self._logs = [_Log(daemon.files.serve_log) for daemon in daemons]
        # Until then it is only noted which tokens there are.
        self._begin_ns = clock_gettime_ns(CLOCK_BOOTTIME) + round(PRELUDE_S * _NS)
        self._served_ns = dict.fromkeys(topics, self._begin_ns)
        self._gaps = Gaps(self._begin_ns)
        self._pending: list[ServeEvent] = []
        self._settled_ns = self._begin_ns
        self._asking: set[int] = set()
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self.lookups = 0

    async def run(self) -> None:
        """Look at what is served, for ever."""
        async with TaskScope("clients") as clients:
            while True:
                now_ns = self._look()
                for number in self._topics.keys() - self._asking:
                    if self._is_closed(number, now_ns):
                        self._asking.add(number)
                        clients.start(self._reconnect(number), f"client of {number}")
                await asyncio.sleep(_LOOK_S)

    def figures(self) -> dict[str, Any]:
        """What the clients have noticed until now."""
        end_ns = self._look()
        self._settle(end_ns)
        took_s = (end_ns - self._begin_ns) / _NS
        return {
            **self._gaps.figures(end_ns),
            "lookups": self.lookups,
            "took_s": round(took_s, 1),
        }

    def _look(self) -> int:
        for log in self._logs:
            events = log.read()
            self._pending += events
            for event in events:
                number = event.hashes[0] * self._bundles // (RING_HIGH + 1)
                self._served_ns[number] = max(self._served_ns[number], event.t_ns)
        now_ns = clock_gettime_ns(CLOCK_BOOTTIME)
        # Seldom: there may be ten thousand events a second, and they have to be sorted.
        if now_ns - self._settled_ns > 2 * _SETTLED_NS:
            self._settled_ns = now_ns - _SETTLED_NS
            self._settle(self._settled_ns)
        return now_ns

    def _settle(self, until_ns: int) -> None:
        self._pending.sort(key=attrgetter("t_ns"))
        done = bisect_right(self._pending, until_ns, key=attrgetter("t_ns"))
        self._gaps.add(self._pending[:done])
        del self._pending[:done]

    def _is_closed(self, number: int, now_ns: int) -> bool:
        return now_ns - self._served_ns[number] > _CLOSED_NS

    async def _reconnect(self, number: int) -> None:
        wait_s = _AGAIN_S
        try:
            while self._is_closed(number, clock_gettime_ns(CLOCK_BOOTTIME)):
                async with self._turn:
                    daemon = self._daemons[(number + self.lookups) % len(self._daemons)]
                    self.lookups += 1
                    await look_up(self._http, daemon, self._topics[number])
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _MOST_AGAIN_S)
        finally:
            self._asking.discard(number)


def one_of_each(names: Callable[[int], Topic], count: int, bundles: int) -> dict[int, Topic]:
    """A topic of each bundle of an even ring that has any, by the bundle's number."""
    topics = map(names, range(count))
    return {topic.ring_hash * bundles // (RING_HIGH + 1): topic for topic in topics}
