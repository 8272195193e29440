"""Decisions of one leading, written down with what came of them."""

from collections import Counter

from broker_ctl.core.decisions import Decision
from broker_ctl.leader.parts import LeaderParts
from broker_ctl.ports import JournalEntry, Outcome


class Outcomes:
    """The leader's pen.

    Attributes:
        cycle: number of the newest cycle; what is decided outside of one counts to it.
        done: what was carried out, by kind.
    """

    def __init__(self, parts: LeaderParts, epoch: int) -> None:
        self._journal = parts.journal
        self._clock = parts.clock
        self._epoch = epoch
        self.cycle = 0
        self.done: Counter[str] = Counter()

    def record(self, decision: Decision, outcome: Outcome) -> None:
        """Write one down."""
        if outcome.result == "done":
            self.done[decision.kind] += 1
        at_ms = self._clock.wall_ms()
        self._journal.record(JournalEntry(at_ms, self._epoch, self.cycle, decision, outcome))
