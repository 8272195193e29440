"""What the leader learnt in this term: of brokers by their reports, of bundles, of orphans."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import Settled
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle
from broker_ctl.store.records.simple import BrokerReport

# A load report, as the leader received it.


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A broker's report, and when it was received.

    Its age counts from then by the leader's clock: the broker's clock may be off by any amount.
    The czxid is that of its node, which each run of a broker creates.
    """

    data: BrokerReport
    received_s: float
    lines: Mapping[Bundle, BundleStats]
    czxid: int


# What the leader learnt of each bundle in this term, besides its load.


_HOUR_S: Final = 3600.0
# After this time the owner is asked again.
_HOT_TOPIC_S: Final = 600.0


@dataclass(slots=True)
class BundleRecord:
    """One bundle; times are on the leader's clock in seconds, None: not in this term.

    Attributes:
        owner: its newest known owner.
        given_to: broker that acquired it by our command, until a report confirms it.
        free_since_s: since when it has no known owner.
        released_s: when its broker was last commanded to release it, for any cause,
            successfully or not.
        unloaded_s: the same by a choice of the balancer; such a bundle rests.
        split_s: when the split or merge that made it was noticed.
        hot_topic: what its owner said of the one topic with nearly all of its traffic, and when.
    """

    owner: str | None = None
    given_to: str | None = None
    free_since_s: float | None = None
    released_s: float | None = None
    unloaded_s: float | None = None
    split_s: float | None = None
    hot_topic: tuple[str, float] | None = None


class BundleHistory:
    """Lives for one term; a new leader starts empty.

    Attributes:
        splitting: bundles with an unanswered command to split or merge.
        imposed: bundles that move now, and not by a choice of the balancer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bundles: dict[Bundle, BundleRecord] = {}
        self._settled: deque[Settled] = deque()
        self.splitting: set[Bundle] = set()
        self.imposed: set[Bundle] = set()

    def get(self, bundle: Bundle) -> BundleRecord:
        """The record of a bundle, read-only."""
        return self._bundles.get(bundle) or BundleRecord()

    def _entry(self, bundle: Bundle) -> BundleRecord:
        entry = self._bundles.get(bundle)
        if entry is None:
            entry = self._bundles[bundle] = BundleRecord()
        return entry

    def record_owner(self, bundle: Bundle, broker_id: str) -> BundleRecord:
        """Record the owner by its owner node."""
        entry = self._entry(bundle)
        entry.owner, entry.free_since_s = broker_id, None
        return entry

    def record_report(self, bundle: Bundle, broker_id: str) -> None:
        """Record that exactly one live broker reports it."""
        self.record_owner(bundle, broker_id).given_to = None

    def record_assigned(self, bundle: Bundle, broker_id: str) -> None:
        """Record that a broker acquired it by our command."""
        self.record_owner(bundle, broker_id).given_to = broker_id

    def record_free(self, bundle: Bundle, last_reporter: str | None) -> None:
        """Record a missing owner node; ``last_reporter`` owned it unless a later owner is known."""
        entry = self._entry(bundle)
        entry.owner = entry.owner or last_reporter
        entry.given_to = None
        if entry.free_since_s is None:
            entry.free_since_s = self._clock.now_s()

    @contextmanager
    def moving(self, bundle: Bundle, reason: Reason) -> Iterator[None]:
        """Mark a bundle for the length of its move, unless the balancer chose it."""
        if not reason.is_own:
            self.imposed.add(bundle)
        try:
            yield
        finally:
            self.imposed.discard(bundle)

    def record_unload(self, bundle: Bundle) -> None:
        """Record that its broker was commanded to release it.

        It is not moved for a while, unless the move was imposed: then nothing is to be calmed down.
        """
        entry = self._entry(bundle)
        entry.released_s = self._clock.now_s()
        if bundle not in self.imposed:
            entry.unloaded_s = entry.released_s

    def record_hot_topic(self, bundle: Bundle, what: str) -> None:
        """Record that its owner has refused a split because of one topic."""
        self._entry(bundle).hot_topic = what, self._clock.now_s()

    def hot_topic(self, bundle: Bundle) -> str:
        """What its owner said of its one hot topic, unless that is long ago; empty: nothing."""
        said = self.get(bundle).hot_topic
        is_fresh = said is not None and self._clock.now_s() - said[1] < _HOT_TOPIC_S
        return said[0] if said is not None and is_fresh else ""

    def record_split(self, parent: Bundle, children: Iterable[Bundle]) -> None:
        """Replace it by its children, which stay with its owner.

        A late report may list the parent again: this must not reset the children's age.
        """
        owner = self._bundles.pop(parent, BundleRecord()).owner
        for child in children:
            entry = self._entry(child)
            if entry.split_s is None:
                entry.split_s = self._clock.now_s()
            entry.owner = entry.owner or owner

    def record_merge(self, left: Bundle, right: Bundle, owner: str) -> None:
        """Replace both by the merged bundle, which stays with their owner."""
        for bundle in (left, right):
            self._bundles.pop(bundle, None)
        entry = self._entry(left.joined(right))
        entry.owner, entry.split_s = owner, self._clock.now_s()

    def keep_only(self, bundles: Mapping[Bundle, object]) -> None:
        """Remove the records of all other bundles, once there are more than a few."""
        if len(self._bundles) > 2 * len(bundles):
            self._bundles = {b: entry for b, entry in self._bundles.items() if b in bundles}

    def record_move(self, bundle: Bundle, throughput_bytes: float) -> None:
        """Record an ended move, which counts for the budget per hour unless it was imposed."""
        if bundle in self.imposed:
            return
        self._settled.append(Settled(bundle, self._clock.now_s(), throughput_bytes))

    def settled(self) -> tuple[Settled, ...]:
        """Moves that ended within the last hour."""
        oldest_s = self._clock.now_s() - _HOUR_S
        while self._settled and self._settled[0].at_s < oldest_s:
            self._settled.popleft()
        return tuple(self._settled)


# How far the placement of orphans has come, and when it will be over.


class OrphanProgress:
    """Orphans by the newest view, and their largest number since there was none."""

    def __init__(self) -> None:
        self.left = 0
        self._most = 0
        self._began_s = 0.0
        self._seen_s = 0.0

    def observe(self, left: int, now_s: float) -> None:
        """Count the orphans of a view; as many as ever before begin it again."""
        self.left, self._seen_s = left, now_s
        if left == 0 or left >= self._most:
            self._most, self._began_s = left, now_s

    @property
    def eta_s(self) -> float | None:
        """Seconds until all are placed, at the rate so far; None: none has been placed yet."""
        if self.left == 0:
            return 0.0
        placed, took_s = self._most - self.left, self._seen_s - self._began_s
        return self.left * took_s / placed if placed > 0 and took_s > 0 else None
