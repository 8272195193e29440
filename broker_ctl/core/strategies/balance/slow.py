"""Slow brokers: their scores, and the consequences (see `slowness` for a single round).

Scores work as in Cruise Control (docs: cruise-control). Each round adds 1 to the score of a slow
broker and subtracts 1 from every other's. At one score a broker is demoted: it receives nothing. At
a far higher one it is removed, if that is enabled: it is drained.

Several slow brokers at once suggest a common cause: a network, a store, a release. Then none is
demoted, and an operator is asked to look. A tenth of the brokers may be demoted, and always at
least one, since in a small cluster one slow broker hurts most; but never the last one.

The score of a broker that is not judged decreases too, so a drained broker can return.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import floor
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.rules.balance import SlowRules
from broker_ctl.core.strategies.balance.cost import Sample
from broker_ctl.core.strategies.balance.slowness import ABSENT, Finding, findings

_NAMED: Final = 5


class Trust(StrEnum):
    """How far a broker is trusted with bundles."""

    TRUSTED = "trusted"
    SUSPECTED = "suspected"
    DEMOTED = "demoted"
    REMOVED = "removed"
    UNFIXABLE = "unfixable"


@dataclass(frozen=True, slots=True)
class Record:
    """Score and history of a broker.

    Attributes:
        history: its cost in medians of its peers, the latest last.
    """

    score: int
    finding: Finding
    history: tuple[float, ...] = ()


_UNKNOWN: Final = Record(0, ABSENT)


@dataclass(frozen=True, slots=True)
class SlowMemory:
    """Records by broker id."""

    brokers: Mapping[str, Record] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = {key: asdict(record) for key, record in self.brokers.items()}
        return {key: {**row, "history": list(row["history"])} for key, row in rows.items()}

    @classmethod
    def recall(cls, row: Mapping[str, Any] | None) -> Self:
        """The memory that ``to_row`` wrote; an empty one for None."""
        return cls(
            {
                str(key): Record(
                    int(known["score"]),
                    Finding(**known["finding"]),
                    tuple(float(value) for value in known["history"]),
                )
                for key, known in (row or {}).items()
            }
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Consequence of a score for one broker."""

    trust: Trust
    score: int
    finding: Finding

    @property
    def can_receive(self) -> bool:
        """Whether it may be given bundles."""
        return self.trust not in {Trust.DEMOTED, Trust.REMOVED}

    @property
    def is_drained(self) -> bool:
        """Whether all its bundles are unloaded."""
        return self.trust is Trust.REMOVED

    @property
    def detail(self) -> str:
        """In words, with figures."""
        return f"{self.trust} with a score of {self.score}: {self.finding.text}"


def observe(memory: SlowMemory, samples: Mapping[str, Sample], rules: SlowRules) -> SlowMemory:
    """One round later.

    A broker that left is forgotten once its score is 0: one that is so slow that it loses its
    session must not come back as a new one.
    """
    if not rules.is_enabled:
        return SlowMemory()
    histories = {key: record.history for key, record in memory.brokers.items()}
    found = findings(samples, histories, rules)
    brokers: dict[str, Record] = {}
    for broker_id in sorted({*memory.brokers, *samples}):
        known = memory.brokers.get(broker_id, _UNKNOWN)
        later = _later(known, found.get(broker_id, ABSENT), rules)
        if later.score or broker_id in samples:
            brokers[broker_id] = later
    return SlowMemory(brokers)


def verdicts(memory: SlowMemory, rules: SlowRules) -> dict[str, Verdict]:
    """Verdicts by broker id; none where the detection is off."""
    if not rules.is_enabled:
        return {}
    slow = {key for key, each in memory.brokers.items() if each.score >= rules.demoted_score}
    judged = {key for key, each in memory.brokers.items() if each.finding.is_judged} | slow
    tenth = floor(len(judged) * rules.max_ratio)
    has_too_many = len(slow) > min(max(1, tenth), len(judged) - 1)
    return {
        key: Verdict(_trust(record.score, has_too_many, rules), record.score, record.finding)
        for key, record in memory.brokers.items()
    }


def demotion_skips(found: Mapping[str, Verdict]) -> tuple[Skip, ...]:
    """Skips for demoted and removed brokers, or one that asks for a human."""
    many = [key for key, each in found.items() if each.trust is Trust.UNFIXABLE]
    if many:
        names = ", ".join(many[:_NAMED]) + (" and others" if len(many) > _NAMED else "")
        text = (
            f"{len(many)} brokers are slow at once ({names}), too many to be the fault of each; "
            f"nobody is demoted: see what they share; {many[0]} {found[many[0]].detail}"
        )
        return (Skip("cluster", Reason.TOO_MANY_SLOW, text),)
    return tuple(
        Skip(key, Reason.SLOW_BROKER, each.detail)
        for key, each in found.items()
        if not each.can_receive
    )


def _later(known: Record, finding: Finding, rules: SlowRules) -> Record:
    highest = max(rules.demoted_score, rules.removed_score)
    score = min(known.score + 1, highest) if finding.is_slow else max(known.score - 1, 0)
    history = known.history
    if finding.multiple is not None:
        history = (*history, round(finding.multiple, 3))[-rules.history_samples :]
    return Record(score, finding, history)


def _trust(score: int, has_too_many: bool, rules: SlowRules) -> Trust:
    if score < rules.demoted_score:
        return Trust.SUSPECTED if score else Trust.TRUSTED
    if has_too_many:
        return Trust.UNFIXABLE
    is_removed = rules.is_removing and score >= rules.removed_score
    return Trust.REMOVED if is_removed else Trust.DEMOTED
