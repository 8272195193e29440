"""What this leading has seen and done of each bundle, beside its load."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.cluster.view import Settled
from broker_ctl.core.model.bundle import Bundle

_HOUR_S: Final = 3600.0


@dataclass(slots=True)
class BundleRecord:
    """One bundle; times are on the leader's clock, None: not in this leading.

    Attributes:
        owner: whose it was when it last was somebody's.
        given_to: who took it by our order, while no report says so.
        free_since_s: since when nobody is known to own it.
        unloaded_s: when its broker was last told to give it up, whatever came of it.
        split_s: when the split or merge that made it was noticed.
    """

    owner: str | None = None
    given_to: str | None = None
    free_since_s: float | None = None
    unloaded_s: float | None = None
    split_s: float | None = None


class BundleHistory:
    """Lives as long as one leading; a new leader begins with nothing and looks for itself.

    Attributes:
        splitting: bundles whose split or merge was ordered and has not been answered.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bundles: dict[Bundle, BundleRecord] = {}
        self._settled: deque[Settled] = deque()
        self.splitting: set[Bundle] = set()

    def of(self, bundle: Bundle) -> BundleRecord:
        """What is remembered, to read only."""
        return self._bundles.get(bundle) or BundleRecord()

    def _entry(self, bundle: Bundle) -> BundleRecord:
        entry = self._bundles.get(bundle)
        if entry is None:
            entry = self._bundles[bundle] = BundleRecord()
        return entry

    def owned(self, bundle: Bundle, broker_id: str) -> BundleRecord:
        """Its owner node says so."""
        entry = self._entry(bundle)
        entry.owner, entry.free_since_s = broker_id, None
        return entry

    def reported(self, bundle: Bundle, broker_id: str) -> None:
        """The report of one live broker has it, and no other's."""
        self.owned(bundle, broker_id).given_to = None

    def given(self, bundle: Bundle, broker_id: str) -> None:
        """A broker took it by our order."""
        self.owned(bundle, broker_id).given_to = broker_id

    def free(self, bundle: Bundle, last_reporter: str | None) -> None:
        """It has no owner node; ``last_reporter`` had it, unless somebody is known to since."""
        entry = self._entry(bundle)
        entry.owner = entry.owner or last_reporter
        entry.given_to = None
        if entry.free_since_s is None:
            entry.free_since_s = self._clock.now_s()

    def disturbed(self, bundle: Bundle) -> None:
        """Its broker was told to give it up: it is left in peace for a while."""
        self._entry(bundle).unloaded_s = self._clock.now_s()

    def split(self, parent: Bundle, children: Iterable[Bundle]) -> None:
        """It is no more; its children stay with its owner.

        A late report may bring the parent up again: the children are no younger for it.
        """
        owner = self._bundles.pop(parent, BundleRecord()).owner
        for child in children:
            entry = self._entry(child)
            if entry.split_s is None:
                entry.split_s = self._clock.now_s()
            entry.owner = entry.owner or owner

    def merged(self, left: Bundle, right: Bundle, owner: str) -> None:
        """Both are no more; what they became stays with their owner."""
        for bundle in (left, right):
            self._bundles.pop(bundle, None)
        entry = self._entry(left.joined(right))
        entry.owner, entry.split_s = owner, self._clock.now_s()

    def keep_only(self, bundles: Mapping[Bundle, object]) -> None:
        """Forget all others, once they are more than a few."""
        if len(self._bundles) > 2 * len(bundles):
            self._bundles = {b: entry for b, entry in self._bundles.items() if b in bundles}

    def moved(self, bundle: Bundle, throughput_bytes: float) -> None:
        """A move has ended, and counts for the hour's budget."""
        self._settled.append(Settled(bundle, self._clock.now_s(), throughput_bytes))

    def settled(self) -> tuple[Settled, ...]:
        """Moves that ended within the last hour."""
        oldest_s = self._clock.now_s() - _HOUR_S
        while self._settled and self._settled[0].at_s < oldest_s:
            self._settled.popleft()
        return tuple(self._settled)
