"""Owners of bundles, by the owner nodes alone, and the load of each broker that follows.

Daemons are not asked: the owner of a bundle is in ZooKeeper, and its load at any moment is in the
scenario.
"""

import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from broker_ctl.clock import SystemClock
from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.replay.cluster import MoveCause, Moved, Replay
from broker_ctl.simulation.workload.scenario_workload import ScenarioWorkload
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.ownership import NamespaceEphemeralData

_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """All bundles of a namespace that have an owner, from ``at_s`` on (`Clock.now_s`)."""

    at_s: float
    namespace: Namespace
    owners: Mapping[Bundle, str]


class Watch:
    """Follows the owner nodes of some namespaces.

    Attributes:
        story: in the order of time.
        now: the newest of each namespace.
    """

    def __init__(self) -> None:
        self.story: list[Seen] = []
        self.now: dict[Namespace, Mapping[Bundle, str]] = {}
        self._clock = SystemClock()

    @classmethod
    @asynccontextmanager
    async def of(
        cls, store: MetadataStore, namespaces: Iterable[Namespace]
    ) -> AsyncIterator["Watch"]:
        """A scope."""
        watch = cls()
        async with AsyncExitStack() as stack:
            for namespace in namespaces:
                tree = PathChildrenCache(
                    store, paths.ownership_of(namespace), _owner, rng=random.Random(1)
                )
                tree.listen(partial(watch._changed, namespace, tree))
                await tree.start()
                stack.push_async_callback(tree.close)
            yield watch

    @property
    def owned(self) -> Mapping[Bundle, str]:
        """All that have an owner now."""
        return {bundle: owner for owners in self.now.values() for bundle, owner in owners.items()}

    def _changed(self, namespace: Namespace, tree: PathChildrenCache[tuple[Bundle, str]]) -> None:
        owners = dict(tree.values.values())
        self.now[namespace] = owners
        self.story.append(Seen(self._clock.now_s(), namespace, owners))


def _owner(node: Versioned) -> tuple[Bundle, str]:
    bundle = paths.owned_bundle(node.path)
    assert bundle is not None, node.path
    return bundle, NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id


@dataclass(frozen=True, slots=True)
class Run:
    """Where a story is held against a scenario.

    Attributes:
        scenario: cut to the minutes that were played.
        origin_s: when they began.
        minute_s: how long each lasted.
        brokers: ids of the daemons, in the order of the scenario's.
    """

    scenario: Scenario
    origin_s: float
    minute_s: float
    brokers: Sequence[str]


def replay_of(run: Run, story: Sequence[Seen]) -> Replay:
    """What a run has shown, in the simulator's words."""
    before = [seen for seen in story if seen.at_s < run.origin_s]
    course = _Course(run)
    for seen in before:
        course.take_in(0, seen)
    course.moves.clear()
    waiting = [seen for seen in story if seen.at_s >= run.origin_s]
    usage = []
    for minute in range(run.scenario.traffic.minutes):
        end_s = run.origin_s + (minute + 1) * run.minute_s
        now_s = end_s - run.minute_s
        totals = np.zeros((4, len(run.brokers)))
        while waiting and waiting[0].at_s < end_s:
            seen = waiting.pop(0)
            totals += course.totals(minute) * (seen.at_s - now_s)
            now_s = seen.at_s
            course.take_in(minute, seen)
        totals += course.totals(minute) * (end_s - now_s)
        usage.append(course.usage(totals / run.minute_s))
    traffic = run.scenario.traffic
    return Replay(
        scenario=run.scenario,
        brokers=tuple(run.brokers),
        usage=np.array(usage),
        offered_bytes=(traffic.bytes_in + traffic.bytes_out).sum(axis=1, dtype=np.float64),
        moves=tuple(course.moves),
        splits=(),
        merges=(),
    )


class _Course:
    """Owners as they change, and each broker's load by them."""

    def __init__(self, run: Run) -> None:
        self.moves: list[Moved] = []
        self._workload = ScenarioWorkload(run.scenario)
        self._numbers = {broker_id: number for number, broker_id in enumerate(run.brokers)}
        self._capacities = tuple(run.scenario.brokers.values())
        self._owners: dict[Namespace, Mapping[Bundle, str]] = {}
        # Last owners, also of bundles that were split or merged since; the newest is last.
        self._last: dict[Namespace, dict[Bundle, str]] = {}

    def take_in(self, minute: int, seen: Seen) -> None:
        self._owners[seen.namespace] = seen.owners
        last = self._last.setdefault(seen.namespace, {})
        for bundle, owner in seen.owners.items():
            newest = next((each for each in reversed(last) if each.overlaps(bundle)), None)
            former = None if newest is None else last[newest]
            if former is not None and former != owner:
                self._note(minute, bundle, former, owner)
            if newest != bundle or former != owner:
                last.pop(bundle, None)
                last[bundle] = owner

    def totals(self, minute: int) -> Floats:
        """Messages in and out, bytes in and out of each broker, shape (4, brokers)."""
        totals = np.zeros((4, len(self._numbers)))
        for owners in self._owners.values():
            for bundle, owner in owners.items():
                line = self._workload.stats(bundle, minute * _MINUTE_S)
                totals[:, self._numbers[owner]] += (
                    line.msg_rate_in,
                    line.msg_rate_out,
                    line.msg_throughput_in,
                    line.msg_throughput_out,
                )
        return totals

    def usage(self, totals: Floats) -> Floats:
        """How full each is, as the simulator reckons it."""
        messages, octets = totals[:2].sum(axis=0), totals[2:].sum(axis=0)
        return np.array(
            [
                max(messages[number] / capacity.msg_rate, octets[number] / capacity.bytes_s)
                for number, capacity in enumerate(self._capacities)
            ]
        )

    def _note(self, minute: int, bundle: Bundle, source: str, destination: str) -> None:
        bytes_s = self._workload.stats(bundle, minute * _MINUTE_S).throughput
        self.moves.append(
            Moved(minute, bundle, source, destination, bytes_s, Reason.IMBALANCE, MoveCause.LOAD)
        )
