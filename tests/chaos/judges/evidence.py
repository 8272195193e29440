"""What a phase has recorded, and all that its judges find in it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.dataplane.bundles.serve_log import ServeEvent
from tests.chaos.clients.counter import Reading, miscounted
from tests.chaos.cluster.cluster import (
    EXPIRY_S,
    RECLAIM_GRACE_S,
    RECOVERY_S,
    SESSION_S,
    TICK_S,
    WATCHDOG_S,
)
from tests.chaos.cluster.configuration import Answer, unanswered
from tests.chaos.judges.acts import Guard
from tests.chaos.judges.held_loops import Hold, lost_or_kept
from tests.chaos.judges.history import Transaction
from tests.chaos.judges.replay import Replay, late_ends
from tests.chaos.judges.verdict import (
    acts_past_the_lease,
    double_served,
    early_takeovers,
    late_recoveries,
    some,
    unowned_tokens,
    wrongly_refused,
)
from tests.chaos.judges.wall_clock import WallClock
from tests.support.replicas.replica_logs import (
    Acknowledged,
    Consumed,
    contradictions,
    disorder,
    shared_epochs,
    unappointed,
)

# A killed process's session ends after the timeout, at the next tick; a killed leader of the
# servers begins it again.
_LEFTOVER_MS: Final = round((SESSION_S + 2 * TICK_S + 2.0) * 1000)
GRACE_MS: Final = round(RECLAIM_GRACE_S * 1000)
WATCHDOG_MS: Final = round(WATCHDOG_S * 1000)
EXPIRY_MS: Final = round(EXPIRY_S * 1000)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one phase.

    Attributes:
        acts: those that the shared log accepted, in order, and those that it ``refused``.
        forced: sessions that were closed behind their owner's back.
        deaths: of killed daemons: see `late_ends`.
        holds: event loops that did not run for a while.
        recoveries: after which fault it took how many seconds until all was served.
        readings: what the counter found.
        answers: what brokers gave while something was wrong with the configuration store.
    """

    guard: Guard
    chroot: str
    history: Sequence[Transaction]
    clock: WallClock
    acts: Sequence[ServeEvent] = ()
    refused: Sequence[ServeEvent] = ()
    forced: Collection[int] = ()
    deaths: Sequence[tuple[str, int, int]] = ()
    holds: Sequence[Hold] = ()
    recoveries: Sequence[tuple[str, float]] = ()
    readings: Sequence[Reading] = ()
    acknowledged: Sequence[Acknowledged] = ()
    consumed: Sequence[Consumed] = ()
    answers: Sequence[Answer] = ()

    def replay(self) -> Replay:
        """All that was committed, played again."""
        replay = Replay(self.chroot)
        replay.run(self.history)
        return replay

    def judged(self, replay: Replay) -> Iterator[str]:
        """What was false, each with its sentence in front; the first few of a kind."""
        yield from some(replay.violations)
        yield from some(early_takeovers(replay, GRACE_MS))
        yield from some(f"I8: {path} was left behind" for path in replay.ephemerals)
        yield from late_ends(replay, self.deaths, _LEFTOVER_MS)
        yield from some(double_served(self.acts))
        yield from some(unowned_tokens(self.acts, replay))
        if self.guard is Guard.LEASE:
            lease = acts_past_the_lease(self.acts, replay, self.clock, self.forced)
            yield from some(lease)
        yield from some(wrongly_refused(self.refused, replay, self.clock))
        yield from some(late_recoveries(self.recoveries, RECOVERY_S))
        yield from some(unanswered(self.answers))
        yield from some(lost_or_kept(self.holds, self.history, WATCHDOG_MS, EXPIRY_MS))
        yield from some(miscounted(self.readings))
        yield from some(shared_epochs(self.acknowledged))
        yield from some(unappointed(self.acknowledged, replay.partitions.appointed))
        yield from some(contradictions([*self.acknowledged, *self.consumed]))
        yield from some(disorder(self.acknowledged))
