"""When a back-test supports a change of settings.

A candidate is *supported* when all hold on every trace that was given:

1. p99 or the load that is moved is better than under the baseline. Better is what has its whole
   95 % interval below 0, and comes by chance (see `p_value`) at most so often as `limit_of` says.
2. None of the three measures is worse. Worse is what has its whole 95 % interval above 0.
3. On recorded traffic, it was the best of all on the first days, and both hold on the days after
   these, see `held_out`.

Who tries many candidates finds one that looks good by luck. So the limit for (1) is divided by
the number of candidates and of measures that can speak for one (Bonferroni): where none is any
better than the baseline on a scenario, something is supported by mistake in at most 5 of 100
back-tests. That each trace has to agree needs no correction. What speaks against a candidate, (2),
is not divided: harm counts as soon as it shows.

The seeds of recorded traffic only draw who has what at the start: seeds are not days. There, (3)
keeps the 5 of 100, for days that are alike as for days that are not. What was tried in other
back-tests does not count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Final, NamedTuple

from broker_ctl.pipeline.backtest.judging import MEASURES
from broker_ctl.pipeline.backtest.results import ComparisonRow, Named
from broker_ctl.pipeline.recommend.held_out import (
    FOR,
    NEEDED_DAYS,
    NO_DAYS,
    HeldOut,
    Key,
    LaterDays,
    first_days,
    min_pairs,
)

_FALSE_ALARMS: Final = 0.05
# How `backtest.results` marks what was recorded.
RECORDED: Final = "cluster:"
_MORE_DAYS: Final = "take in more days of history, and back-test again"


class BacktestEvidence(NamedTuple):
    """A candidate against the baseline in one measure on one trace.

    Attributes:
        chance: that it is so much better without a reason; see `p_value`.
    """

    row: ComparisonRow
    chance: float

    @property
    def sentence(self) -> str:
        """For people."""
        row = self.row
        return (
            f"{row.measure} {row.baseline_mean:.4g} -> {row.candidate_mean:.4g},"
            f" difference {row.difference:+.3g} [{row.low:+.3g}, {row.high:+.3g}]"
        )

    def is_better(self, limit: float) -> bool:
        """Whether it speaks for the candidate."""
        return self.row.measure in FOR and self.row.high < 0 and self.chance <= limit

    @property
    def is_worse(self) -> bool:
        """Whether it speaks against the candidate; so does a value that is not a number."""
        return not self.row.low <= 0


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """On one candidate.

    Attributes:
        evidence: by trace, and by measure in the order of `judging.MEASURES`.
        refusal: why it is not supported; empty: it is.
        held_out: what the later days of recorded traffic say, if it was chosen on the first.
    """

    candidate: Named
    evidence: tuple[BacktestEvidence, ...]
    refusal: str
    held_out: Mapping[Key, HeldOut] = field(default_factory=dict)


def limit_of(candidates: int) -> float:
    """Largest p-value allowed for this number of candidates."""
    return _FALSE_ALARMS / (len(FOR) * max(candidates, 1))


def judge_candidates(
    tried: Mapping[Named, Sequence[BacktestEvidence]],
    traces: Sequence[str],
    later: LaterDays = NO_DAYS,
) -> tuple[RuleVerdict, ...]:
    """All that were tried: the supported first, the best of them at the top.

    Of two supported ones that is better which is better in more measures and traces; then which
    has the lower p99, then which moves less, each as a part of the baseline's, mean over traces.

    Args:
        tried: all candidates of one back-test but the baseline, each with all its evidence.
        traces: on which they must be better.
        later: what the later days of recorded traffic say.
    """
    limit = limit_of(len(tried))
    verdicts = [
        _on_later_days(_verdict(candidate, tried[candidate], traces, limit), traces, later)
        for candidate in tried
    ]
    return tuple(sorted(verdicts, key=lambda verdict: _rank(verdict, limit)))


def _verdict(
    candidate: Named, found: Sequence[BacktestEvidence], traces: Sequence[str], limit: float
) -> RuleVerdict:
    by_place = {(each.row.trace, each.row.measure): each for each in found}
    places = [(trace, measure) for trace in traces for measure in MEASURES]
    evidence = tuple(by_place[place] for place in places if place in by_place)
    for trace, measure in places:
        if (trace, measure) not in by_place:
            refusal = f"on {trace} it was not replayed with the seeds of the baseline"
            return RuleVerdict(candidate, evidence, refusal)
    return RuleVerdict(candidate, evidence, _refusal(evidence, traces, limit))


def _on_later_days(verdict: RuleVerdict, traces: Sequence[str], later: LaterDays) -> RuleVerdict:
    """The same, refused where the later days of recorded traffic do not agree."""
    if verdict.refusal:
        return verdict
    held_out = later.held_out if verdict.candidate == later.chosen else {}
    for trace in traces:
        if not trace.startswith(RECORDED):
            continue
        if refusal := _days_refusal(trace, verdict.candidate, later):
            return replace(verdict, refusal=refusal, held_out=held_out)
    return replace(verdict, held_out=held_out)


def _days_refusal(trace: str, candidate: Named, later: LaterDays) -> str:
    found = {key[2]: each for key, each in later.held_out.items() if key[0] == trace}
    if not found:
        return f"seeds are not days: {trace} is one day, and nothing shows the next; {_MORE_DAYS}"
    count = found[FOR[0]].of_days
    if candidate != later.chosen:
        return (
            f"not the best on days 1 to {first_days(count)} of {trace}: {later.chosen} was, and"
            " only one is judged on the days after"
        )
    for measure, each in found.items():
        if each.low > 0:
            return f"worse on later days of {trace}: {describe_days(measure, each)}"
    speaking = {measure: found[measure] for measure in FOR}
    if any(each.high < 0 for each in speaking.values()):
        return ""
    said = "; ".join(describe_days(measure, each) for measure, each in speaking.items())
    if count < NEEDED_DAYS:
        return f"too few days of {trace}, {NEEDED_DAYS} are needed: {said}; {_MORE_DAYS}"
    return f"not shown on later days of {trace}, it may be luck: {said}"


def describe_days(measure: str, each: HeldOut) -> str:
    """For people."""
    return (
        f"{measure} {each.mean:+.3g} [{each.low:+.3g}, {each.high:+.3g}] on the last {each.days} of"
        f" {each.of_days} days"
    )


def _refusal(evidence: Sequence[BacktestEvidence], traces: Sequence[str], limit: float) -> str:
    for each in evidence:
        if each.is_worse:
            return f"worse on {each.row.trace}: {each.sentence}"
    for trace in traces:
        there = [each for each in evidence if each.row.trace == trace]
        if not any(each.is_better(limit) for each in there):
            return _not_better(trace, [each for each in there if each.row.measure in FOR], limit)
    return ""


def _not_better(trace: str, speaking: Sequence[BacktestEvidence], limit: float) -> str:
    promising = [each for each in speaking if each.row.high < 0]
    if not promising:
        return f"no better on {trace}: {'; '.join(each.sentence for each in speaking)}"
    best = min(promising, key=lambda each: each.chance)
    needed = min_pairs(limit)
    if best.row.pairs < needed:
        return (
            f"too few seeds on {trace}: {best.sentence}; with {best.row.pairs} pairs it may be"
            f" luck, this number of candidates needs {needed}: back-test with --seeds {needed}"
        )
    return (
        f"it may be luck on {trace}: {best.sentence}; by chance in {best.chance:.2g} of all"
        f" cases, {limit:.2g} is allowed for this number of candidates"
    )


def _rank(verdict: RuleVerdict, limit: float) -> tuple[bool, int, list[float], Named]:
    better = sum(each.is_better(limit) for each in verdict.evidence)
    parts = [_relative(verdict, measure) for measure in FOR]
    return bool(verdict.refusal), -better, parts, verdict.candidate


def _relative(verdict: RuleVerdict, measure: str) -> float:
    """Difference as a part of the baseline's mean; 0 where that is 0, or of no trace."""
    rows = [each.row for each in verdict.evidence if each.row.measure == measure]
    parts = [row.difference / row.baseline_mean if row.baseline_mean else 0.0 for row in rows]
    return fmean(parts) if parts else 0.0
