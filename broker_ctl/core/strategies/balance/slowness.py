"""Slow brokers: who is slow, for how long, what follows, and the cost of a byte on each broker.

Cost of a byte on each broker: it distinguishes a slow broker from a busy one.

Usage alone does not show a broker's health: the fullest may just have the most to do. Usage over
traffic does, once three things are taken out of it:

- size. Usage is a part of the broker's *own* capacity, so a broker half as large shows twice the
  usage for the same byte. It is multiplied by the broker's size: the limit of its fullest resource
  over the median of what the brokers report as their limit of that resource. A cost is then a part
  of a median broker. Where a limit is unknown the broker is taken for a median one.
- the size of messages. A small one costs nearly as much as a large one, so that each counts for
  some bytes beside its own.
- time. Usage and traffic are of one and the same report; the averages of the view lag behind it,
  and would make a broker with a sudden load look slow.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from enum import StrEnum
from math import ceil, floor, isfinite
from statistics import median
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Reason, Skip
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import SystemUsage, UsageWeights, throughput_text
from broker_ctl.core.rules.leader_rules import SlowRules

# A broker of 50 MB/s is one of about 50,000 msg/s.
_MESSAGE_BYTES: Final = 1000.0


@dataclass(frozen=True, slots=True)
class SlownessSample:
    """One broker by its last report.

    Attributes:
        usage_ratio: of its own capacity, 1.0 is full.
        throughput_bytes: bytes/s in and out.
        msg_rate: msg/s in and out.
        size_ratio: its capacity over that of a median broker.
        age_s: age of the report.
    """

    usage_ratio: float
    throughput_bytes: float
    msg_rate: float = 0.0
    size_ratio: float = 1.0
    age_s: float = 0.0

    @property
    def cost(self) -> float:
        """Part of a median broker for a byte/s; 0 where there is no traffic."""
        traffic = self.throughput_bytes + self.msg_rate * _MESSAGE_BYTES
        return self.usage_ratio * self.size_ratio / traffic if traffic > 0 else 0.0


def sample_costs(
    view: ClusterView, weights: UsageWeights | None = None
) -> dict[str, SlownessSample]:
    """The brokers that are there to stay, by id.

    Args:
        view: of this moment.
        weights: those by which ``BrokerView.usage_ratio`` was made (`core.load.max_usage`).
    """
    staying = {key: broker for key, broker in view.brokers.items() if not broker.is_draining}
    sizes = fullest_size_ratios(
        {key: broker.load.usage for key, broker in staying.items()}, weights
    )
    samples: dict[str, SlownessSample] = {}
    for broker_id, broker in staying.items():
        total = broker.load.total
        samples[broker_id] = SlownessSample(
            broker.usage_ratio,
            total.throughput,
            total.msg_rate,
            sizes[broker_id],
            broker.age_s,
        )
    return samples


def fullest_size_ratios(
    usages: Mapping[str, SystemUsage], weights: UsageWeights | None = None
) -> dict[str, float]:
    """Size of each broker in its own fullest resource, 1.0 is a median broker.

    Not `core.load.size_ratios`, which compares all brokers in one resource: a broker that is full
    in another, as one with a small network link, would look slow.
    """
    weighed: Sequence[float] = astuple(weights or UsageWeights())
    limits: dict[int, list[float]] = defaultdict(list)
    for usage in usages.values():
        for number, resource in enumerate(usage.resources):
            if resource.limit > 0:
                limits[number].append(resource.limit)
    medians = {number: median(values) for number, values in limits.items()}
    sizes: dict[str, float] = {}
    for broker_id, usage in usages.items():
        shares = [
            resource.percent * weight
            for resource, weight in zip(usage.resources, weighed, strict=True)
        ]
        # The first of equals: processors before memory before networks.
        fullest = shares.index(max(shares))
        limit = usage.resources[fullest].limit
        sizes[broker_id] = limit / medians[fullest] if limit > 0 else 1.0
    return sizes


# Who is slow in one round: needs far more than its peers, or than it used to, for its traffic.
#
# A broker is slow when a byte (`cost`) takes above some times what it takes its peers, or when
# that relation to its peers is above some times what it usually was: either is enough, since a
# sick broker may have been sick from the start, and a strong one may have become sick and not be
# the dearest by far yet. What all brokers share (the hour, smaller messages everywhere) changes
# no such relation. What lasts becomes the rule for the broker's own history, and then its peers
# alone decide.
#
# Who has too little traffic or usage is not judged: an idle machine uses something for nothing,
# and would look dear.


_MIB: Final = 1024 * 1024
# With one peer it is unknown which of the two is odd.
_FEWEST_PEERS: Final = 2
_OWN_PERCENTILE: Final = 0.9


@dataclass(frozen=True, slots=True)
class SlownessFinding:
    """One broker in one round.

    Attributes:
        is_judged: False where too little is known; then it is not slow.
        cost: part of a median broker for a byte/s; 0 where it was not judged by it.
        peers_cost: median of its peers, likewise.
        own_multiple: 90th percentile of its history, in medians of its peers; None: no history.
        text: why, with figures.
    """

    is_judged: bool
    is_slow: bool
    text: str
    cost: float = 0.0
    peers_cost: float = 0.0
    own_multiple: float | None = None

    @property
    def multiple(self) -> float | None:
        """Cost in medians of the peers; None where it was not judged by it."""
        return self.cost / self.peers_cost if self.peers_cost > 0 else None


ABSENT: Final = SlownessFinding(is_judged=False, is_slow=False, text="it is not there")


def findings(
    samples: Mapping[str, SlownessSample],
    histories: Mapping[str, tuple[float, ...]],
    rules: SlowRules,
) -> dict[str, SlownessFinding]:
    """Each broker of ``samples``; ``histories`` are what ``Finding.multiple`` was, latest last."""
    hindrances = {key: _hindrance(sample, rules) for key, sample in samples.items()}
    ordered = sorted(samples[key].cost for key, why in hindrances.items() if why is None)
    found: dict[str, SlownessFinding] = {}
    for broker_id, why in hindrances.items():
        sample = samples[broker_id]
        if why is None:
            peers_cost = _median_without(ordered, sample.cost)
            history = histories.get(broker_id, ())
            found[broker_id] = _by_cost(sample.cost, peers_cost, history, rules)
        else:
            is_silent = sample.age_s > rules.report_age_s
            found[broker_id] = SlownessFinding(is_judged=is_silent, is_slow=is_silent, text=why)
    return found


def _hindrance(sample: SlownessSample, rules: SlowRules) -> str | None:
    """Why a broker is not judged by its cost."""
    if sample.age_s > rules.report_age_s:
        return f"last heard of {sample.age_s:.0f} s ago, {rules.report_age_s:g} s are allowed"
    figures = (sample.usage_ratio, sample.throughput_bytes, sample.msg_rate, sample.cost)
    if not all(isfinite(figure) and figure >= 0 for figure in figures):
        return "its report makes no sense"
    if sample.throughput_bytes < rules.min_throughput_bytes:
        return f"{throughput_text(sample.throughput_bytes)} are too little to judge by"
    if sample.usage_ratio < rules.min_usage_ratio:
        return f"{sample.usage_ratio:.1%} used are too little to judge by"
    return None


def _by_cost(
    cost: float, peers_cost: float, history: tuple[float, ...], rules: SlowRules
) -> SlownessFinding:
    if peers_cost <= 0:
        return SlownessFinding(is_judged=False, is_slow=False, text="no peers to judge it by")
    multiple = cost / peers_cost
    own = _percentile(history) if len(history) >= rules.min_samples else None
    # A broker that is not dearer than its peers is not slow, however cheap it was.
    is_unlike_itself = own is not None and multiple > max(1.0, own * rules.own_times)
    usually = "no history yet" if own is None else f"nine times in ten at most {own:.1f}"
    text = (
        f"a MiB/s takes {cost * _MIB:.2%} of a median broker, {multiple:.1f} times the median of "
        f"its peers ({peers_cost * _MIB:.2%}); {usually}"
    )
    return SlownessFinding(
        is_judged=True,
        is_slow=multiple > rules.peers_times or is_unlike_itself,
        text=text,
        cost=cost,
        peers_cost=peers_cost,
        own_multiple=own,
    )


def _median_without(ordered: list[float], value: float) -> float:
    """Median of the others; 0 where they are too few."""
    count = len(ordered) - 1
    if count < _FEWEST_PEERS:
        return 0.0
    own = bisect_left(ordered, value)
    low, high = ((rank + (rank >= own)) for rank in ((count - 1) // 2, count // 2))
    return (ordered[low] + ordered[high]) / 2


def _percentile(history: tuple[float, ...]) -> float:
    return sorted(history)[ceil(_OWN_PERCENTILE * len(history)) - 1]


# Slow brokers: their scores, and the consequences (see `slowness` for a single round).
#
# Scores work as in Cruise Control (docs: cruise-control). Each round adds 1 to the score of a
# slow broker and subtracts 1 from every other's. At one score a broker is demoted: it receives
# nothing. At a far higher one it is removed, if that is enabled: it is drained.
#
# Several slow brokers at once suggest a common cause: a network, a store, a release. Then none is
# demoted, and an operator is asked to look. A tenth of the brokers may be demoted, and always at
# least one, since in a small cluster one slow broker hurts most; but never the last one.
#
# The score of a broker that is not judged decreases too, so a drained broker can return.


_NAMED: Final = 5


class Trust(StrEnum):
    """How far a broker is trusted with bundles."""

    TRUSTED = "trusted"
    SUSPECTED = "suspected"
    DEMOTED = "demoted"
    REMOVED = "removed"
    UNFIXABLE = "unfixable"


@dataclass(frozen=True, slots=True)
class SlownessRecord:
    """Score and history of a broker.

    Attributes:
        history: its cost in medians of its peers, the latest last.
    """

    score: int
    finding: SlownessFinding
    history: tuple[float, ...] = ()


_UNKNOWN: Final = SlownessRecord(0, ABSENT)


@dataclass(frozen=True, slots=True)
class SlowMemory:
    """Records by broker id."""

    brokers: Mapping[str, SlownessRecord] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = {key: asdict(record) for key, record in self.brokers.items()}
        return {key: {**row, "history": list(row["history"])} for key, row in rows.items()}

    @classmethod
    def recall(cls, row: Mapping[str, Any] | None) -> Self:
        """The memory that ``to_row`` wrote; an empty one for None."""
        return cls(
            {
                str(key): SlownessRecord(
                    int(known["score"]),
                    SlownessFinding(**known["finding"]),
                    tuple(float(value) for value in known["history"]),
                )
                for key, known in (row or {}).items()
            }
        )


@dataclass(frozen=True, slots=True)
class SlownessVerdict:
    """Consequence of a score for one broker."""

    trust: Trust
    score: int
    finding: SlownessFinding

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


def observe(
    memory: SlowMemory, samples: Mapping[str, SlownessSample], rules: SlowRules
) -> SlowMemory:
    """One round later.

    A broker that left is forgotten once its score is 0: one that is so slow that it loses its
    session must not come back as a new one.
    """
    if not rules.is_enabled:
        return SlowMemory()
    histories = {key: record.history for key, record in memory.brokers.items()}
    found = findings(samples, histories, rules)
    brokers: dict[str, SlownessRecord] = {}
    for broker_id in sorted({*memory.brokers, *samples}):
        known = memory.brokers.get(broker_id, _UNKNOWN)
        later = _later(known, found.get(broker_id, ABSENT), rules)
        if later.score or broker_id in samples:
            brokers[broker_id] = later
    return SlowMemory(brokers)


def verdicts(memory: SlowMemory, rules: SlowRules) -> dict[str, SlownessVerdict]:
    """Verdicts by broker id; none where the detection is off."""
    if not rules.is_enabled:
        return {}
    slow = {key for key, each in memory.brokers.items() if each.score >= rules.demoted_score}
    judged = {key for key, each in memory.brokers.items() if each.finding.is_judged} | slow
    tenth = floor(len(judged) * rules.max_ratio)
    has_too_many = len(slow) > min(max(1, tenth), len(judged) - 1)
    return {
        key: SlownessVerdict(
            _trust(record.score, has_too_many, rules), record.score, record.finding
        )
        for key, record in memory.brokers.items()
    }


def demotion_skips(found: Mapping[str, SlownessVerdict]) -> tuple[Skip, ...]:
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


def _later(known: SlownessRecord, finding: SlownessFinding, rules: SlowRules) -> SlownessRecord:
    highest = max(rules.demoted_score, rules.removed_score)
    score = min(known.score + 1, highest) if finding.is_slow else max(known.score - 1, 0)
    history = known.history
    if finding.multiple is not None:
        history = (*history, round(finding.multiple, 3))[-rules.history_samples :]
    return SlownessRecord(score, finding, history)


def _trust(score: int, has_too_many: bool, rules: SlowRules) -> Trust:
    if score < rules.demoted_score:
        return Trust.SUSPECTED if score else Trust.TRUSTED
    if has_too_many:
        return Trust.UNFIXABLE
    is_removed = rules.is_removing and score >= rules.removed_score
    return Trust.REMOVED if is_removed else Trust.DEMOTED
