"""The simulated broker process: bundles under a workload, and what it served."""

import asyncio
import random
from collections import deque
from collections.abc import Mapping

from broker_ctl.clock import Clock
from broker_ctl.core.model.load import BundleStats, SystemUsage
from broker_ctl.core.model.names import Bundle, Topic
from broker_ctl.dataplane.bundles.bundle_table import BundleTable
from broker_ctl.dataplane.bundles.interface import Authority, Declared, Unloaded
from broker_ctl.dataplane.bundles.serve_log import ServeEvent, ServeLog
from broker_ctl.errors import DataPlaneRefused
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.workload.workload import TrafficSource
from broker_ctl.tasks import TaskScope

# A broker process that serves a workload in memory, under the rules of a real one.


_NS_PER_S = 1_000_000_000
_MINUTE_S = 60.0


class SimulatedDataPlane:
    """Serves each topic of the loaded bundles once per tick, while it has authority.

    Two rules, each of which alone prevents two owners: a loaded bundle has the highest token that
    this data plane has received for any of its hashes (I1b, see `BundleTable`), and it is served
    only before the deadline of the last grant (I1a).

    Args:
        workload: the topics and their traffic.
        clock: for authority and the times of acts.
        broker_id: broker of its events in the serve log.
        rng: source of the instance id.
        serve_log: where serve events are recorded; closed by its owner.
        tick_s: pause between two acts of a topic.
        capacity: the load that `usage` reports as 100 %; None: as the workload has it for this
            broker.
        topic_close_s: how long closing one topic takes.
        origin_s: start of the workload on `Clock.now_s`; None: the start of the data plane. Brokers
            with the same workload need the same origin, or a bundle's load jumps when it moves.
        minute_s: duration of a minute of the workload; less than 60 speeds it up.
    """

    # It shares no storage with other simulated brokers. It is part of the daemon, so it has no
    # version of its own.
    declared: Declared = Declared()

    def __init__(
        self,
        workload: TrafficSource,
        clock: Clock,
        *,
        broker_id: str,
        rng: random.Random,
        serve_log: ServeLog | None = None,
        tick_s: float = 0.1,
        capacity: Capacity | None = None,
        topic_close_s: float = 0.0,
        origin_s: float | None = None,
        minute_s: float = _MINUTE_S,
    ) -> None:
        self._workload = workload
        self._clock = clock
        self._broker_id = broker_id
        self._rng = rng
        self._serve_log = serve_log
        self._tick_s = tick_s
        self._capacity = capacity or workload.capacity_of(broker_id)
        self._topic_close_s = topic_close_s
        self._origin_s = origin_s
        self._pace = _MINUTE_S / minute_s
        self._instance_id = ""
        self._authority = Authority()
        self._table = BundleTable()
        self._tasks = TaskScope("simulated data plane")

    @property
    def instance_id(self) -> str:
        """A new random value at each start."""
        return self._instance_id

    async def start(self) -> None:
        """Forget everything, as a new process would, and start ticking."""
        await self.stop()
        self._instance_id = f"{self._rng.getrandbits(64):016x}"
        if self._origin_s is None:
            self._origin_s = self._clock.now_s()
        self._tasks = TaskScope("simulated data plane")
        self._tasks.keep(self._tick_for_ever(), "ticker")

    async def stop(self) -> None:
        """Stop serving, and forget everything."""
        await self._tasks.close()
        self._authority = Authority()
        self._table = BundleTable()

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        """Grant authority until ``deadline_s``; it is checked at every act."""
        self._authority = Authority(session_epoch, deadline_s)

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        """Start serving a bundle under a token; the clients of its topics come at once."""
        del is_preloading
        self._table.load(bundle, token)

    async def renew(self, bundle: Bundle, token: int) -> None:
        """Raise the token of a loaded bundle; its topics stay open."""
        self._table.renew(bundle, token)

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Hand the parent's open topics on to its children."""
        self._table.split(parent, children)

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        """Hand the children's open topics on to the parent."""
        self._table.merge(children, parent, token)

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        """Close one topic after the other.

        Topics that are still open at the deadline stay served.
        """
        end_s = self._clock.now_s() + deadline_s
        closed = 0
        for entry in self._table.overlapping(bundle):
            entry.is_closing = True
            for name in sorted(entry.open):
                await asyncio.sleep(self._topic_close_s)
                # Meanwhile the bundle may have been fenced, loaded again or renewed, all of
                # which end this unload.
                if not self._table.is_current(entry):
                    break
                if self._clock.now_s() > end_s:
                    return Unloaded(closed, is_confirmed=False)
                closed += name in entry.open
                entry.open.discard(name)
            else:
                self._table.drop(entry.bundle)
        return Unloaded(closed, is_confirmed=not self._table.overlapping(bundle))

    async def unload_topic(self, topic: str) -> None:
        """Close one topic; its clients are back at the next tick."""
        name = str(Topic.parse(topic))
        for entry in self._table:
            if name in entry.open:
                entry.open.discard(name)
                return
        raise DataPlaneRefused(f"{name} is not loaded")

    async def fence(self, bundle: Bundle) -> None:
        """Drop everything that overlaps the bundle, without closing anything."""
        self._table.drop(bundle)

    async def loaded(self) -> Mapping[Bundle, int]:
        """Loaded bundles with their tokens."""
        return {entry.bundle: entry.token for entry in self._table}

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        """The bundle's open topics, by name."""
        return tuple(sorted(self._table.get(bundle).open))

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        """Current traffic of each open topic of the bundle; none passes without authority."""
        still_open = self._table.get(bundle).open
        found = {name: BundleStats(topics=1) for name in sorted(still_open)}
        if self._authority.is_valid(self._clock.now_s()):
            with_load = self._workload.topic_stats(bundle, self._workload_s())
            found.update((name, line) for name, line in with_load.items() if name in still_open)
        return found

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        """Current traffic of each loaded bundle; none passes without authority."""
        if not self._authority.is_valid(self._clock.now_s()):
            return {entry.bundle: BundleStats() for entry in self._table}
        t_s = self._workload_s()
        return {entry.bundle: self._workload.stats(entry.bundle, t_s) for entry in self._table}

    async def usage(self) -> SystemUsage:
        """Usage by the traffic that is served; see `Capacity.usage_by`."""
        total = sum((await self.statistics()).values(), BundleStats())
        return self._capacity.usage_by(total)

    async def _tick_for_ever(self) -> None:
        while True:
            for token, hashes in self._topics_with_traffic().items():
                # Checked for each event, which is dated with the time of the check (I1a).
                now_s = self._clock.now_s()
                if self._serve_log is not None and self._authority.is_valid(now_s):
                    at_ns = int(now_s * _NS_PER_S)
                    self._serve_log.record(ServeEvent(at_ns, self._broker_id, token, tuple(hashes)))
            await asyncio.sleep(self._tick_s)

    def _topics_with_traffic(self) -> Mapping[int, list[int]]:
        """Hashes of the topics with traffic by token; opens the closed topics among them."""
        t_s = self._workload_s()
        hashes: dict[int, list[int]] = {}
        # Skip idle data planes: with many bundles and no workload a tick must not visit every
        # bundle.
        if not self._workload.has_topics or not self._authority.is_valid(self._clock.now_s()):
            return hashes
        for entry in self._table:
            for name, position in self._workload.busy_topics(entry.bundle, t_s):
                # Clients that reconnect open their topic, unless the bundle is being unloaded.
                if not entry.is_closing:
                    entry.open.add(name)
                if name in entry.open:
                    hashes.setdefault(entry.token, []).append(position)
        return hashes

    def _workload_s(self) -> float:
        return (self._clock.now_s() - (self._origin_s or 0.0)) * self._pace


# A serve log in memory.


class MemoryServeLog:
    """The last ``max_events`` serve events of a data plane.

    Attributes:
        events: oldest first; still readable after `close`.
    """

    def __init__(self, max_events: int) -> None:
        self.events: deque[ServeEvent] = deque(maxlen=max_events)

    def record(self, event: ServeEvent) -> None:
        """Add an event; a full log drops its oldest one."""
        self.events.append(event)

    def close(self) -> None:
        """Do nothing: there is no file to close."""
