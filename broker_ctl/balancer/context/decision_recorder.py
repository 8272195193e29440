"""Records the decisions of one term with their outcomes."""

from collections import Counter
from collections.abc import Callable

from broker_ctl.balancer.context.decision_log import DecisionLog
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.decisions import Decision, Transfer
from broker_ctl.core.history.journal import JournalEntry, Outcome


class DecisionRecorder:
    """Records decisions in the journal and the stored history.

    Args:
        keep: called with each entry, to store it beyond this process.

    Attributes:
        cycle: number of the newest cycle; decisions outside of a cycle are counted to it.
        done: executed decisions, by kind.
        relieved_brokers: brokers that bundles were moved from, each counted once per cycle.
    """

    def __init__(
        self, journal: DecisionLog, clock: Clock, epoch: int, keep: Callable[[JournalEntry], None]
    ) -> None:
        self._journal = journal
        self._keep = keep
        self._clock = clock
        self._epoch = epoch
        self.cycle = 0
        self.done: Counter[str] = Counter()
        self.relieved_brokers = 0
        self._relieved: tuple[int, set[str]] = (0, set())

    def record(self, decision: Decision, outcome: Outcome) -> None:
        """Record one decision."""
        if outcome.result == "done":
            self.done[decision.kind] += 1
            if isinstance(decision, Transfer):
                self._relieve(decision.source)
        at_ms = self._clock.wall_ms()
        entry = JournalEntry(at_ms, self._epoch, self.cycle, decision, outcome)
        self._journal.record(entry)
        self._keep(entry)

    def _relieve(self, broker_id: str) -> None:
        cycle, brokers = self._relieved
        if cycle != self.cycle:
            brokers = set()
            self._relieved = (self.cycle, brokers)
        if broker_id not in brokers:
            brokers.add(broker_id)
            self.relieved_brokers += 1
