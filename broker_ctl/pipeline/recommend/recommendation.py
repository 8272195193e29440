"""A recommendation: its sentences, and the settings that it would change."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from broker_ctl.core.model.safe_text import printable
from broker_ctl.core.strategies.shedding_strategies import BALANCE
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.results import Named
from broker_ctl.pipeline.recommend.evidence import Findings
from broker_ctl.pipeline.recommend.held_out import HeldOut, judge_days
from broker_ctl.pipeline.recommend.rule import (
    RECORDED,
    BacktestEvidence,
    RuleVerdict,
    describe_days,
    judge_candidates,
    limit_of,
)
from broker_ctl.settings.intake import take_in
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.schema import Entry
from broker_ctl.settings.sources import line_of

# The lines of a ``broker.conf`` that make a daemon decide as a candidate did.


# What a leader makes of its settings.
SETTINGS: Final = "settings"
_ORIGIN: Final = "the back-test"
_STRATEGIES: Final = (
    ("loadBalancerLoadPlacementStrategy", BALANCE),
    ("loadBalancerLoadSheddingStrategy", BALANCE),
)


def entries_of(candidate: Named, baseline: Named) -> tuple[tuple[str, str], ...]:
    """Keys and values, in the order of the keys.

    Raises:
        PipelineError: no settings make a daemon decide like that, or this release does not take
            them.
    """
    if candidate.policy not in {SETTINGS, BALANCE}:
        raise PipelineError(
            f"{candidate.policy} was replayed as Pulsar runs it, without the limits that a daemon"
            f" has: back-test the policy {SETTINGS} with loadBalancerLoadSheddingStrategy and"
            " loadBalancerLoadPlacementStrategy"
        )
    words = [word.partition("=") for word in candidate.parameters.split()]
    entries = {key: value for key, _, value in words}
    if candidate.policy == BALANCE != baseline.policy:
        entries = dict(_STRATEGIES) | entries
    found = tuple(sorted(entries.items()))
    _check(found)
    return found


def _check(entries: Sequence[tuple[str, str]]) -> None:
    if not entries:
        raise PipelineError("it is the settings as they come: there is no line to write")
    # Only each by itself: what goes together depends on the rest of the file.
    intake = take_in((Entry(key, value, _ORIGIN) for key, value in entries), DECLARATIONS)
    strange = (*intake.unknown, *intake.unused)
    faults = [
        *map(str, intake.problems),
        *(f"{each.key}: no setting of a daemon" for each in strange),
    ]
    if faults:
        raise PipelineError(f"this release does not take it: {'; '.join(faults)}")


# The recommendation: settings of the best candidate that a back-test supports, or none.


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Of one back-test.

    Attributes:
        baseline: what all were held against.
        traces: on which.
        limit: see `rule.limit_of`.
        supported: the recommended one first; there may be none.
        refused: all others, those that are supported and no settings make among them.
    """

    baseline: Named
    traces: tuple[str, ...]
    limit: float
    supported: tuple[RuleVerdict, ...]
    refused: tuple[RuleVerdict, ...]

    @classmethod
    def of(cls, findings: Findings, traces: Sequence[str] = ()) -> Self:
        """Judge what was found, on these traces or on all.

        Raises:
            PipelineError: there is no such trace.
        """
        for trace in traces:
            if trace not in findings.traces:
                raise PipelineError(f"no trace {trace!r}: one of {', '.join(findings.traces)}")
        wanted = tuple(dict.fromkeys(traces)) or findings.traces
        days = [row for row in findings.days if row.trace in wanted]
        judged = judge_candidates(findings.tried, wanted, judge_days(days, findings.baseline))
        verdicts = [_settable(each, findings.baseline) for each in judged]
        return cls(
            baseline=findings.baseline,
            traces=wanted,
            limit=limit_of(len(verdicts)),
            supported=tuple(each for each in verdicts if not each.refusal),
            refused=tuple(each for each in verdicts if each.refusal),
        )

    @property
    def candidates(self) -> int:
        """How many were tried."""
        return len(self.supported) + len(self.refused)

    def entries(self, verdict: RuleVerdict) -> tuple[tuple[str, str], ...]:
        """Keys and values of a supported one."""
        return entries_of(verdict.candidate, self.baseline)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values; ``settings`` is what is recommended, empty where nothing is."""
        best = self.supported[:1]
        return {
            "baseline": self.baseline._asdict(),
            "traces": list(self.traces),
            "candidates": self.candidates,
            "chance_allowed": self.limit,
            "settings": {key: value for each in best for key, value in self.entries(each)},
            "supported": [
                {**_row(each), "settings": dict(self.entries(each))} for each in self.supported
            ],
            "refused": [{**_row(each), "why": each.refusal} for each in self.refused],
        }


def _settable(verdict: RuleVerdict, baseline: Named) -> RuleVerdict:
    if verdict.refusal:
        return verdict
    try:
        entries_of(verdict.candidate, baseline)
    except PipelineError as error:
        return replace(verdict, refusal=str(error))
    return verdict


def _row(verdict: RuleVerdict) -> dict[str, Any]:
    return {
        **verdict.candidate._asdict(),
        "evidence": [_evidence_row(each) for each in verdict.evidence],
        "other_days": [
            {"trace": trace, "measure": measure, **_finite(each)}
            for (trace, _, measure), each in verdict.held_out.items()
        ],
    }


def _finite(found: HeldOut) -> dict[str, Any]:
    """Plain JSON values; an unbounded end of an interval is null."""
    row = found._asdict()
    return {name: each if math.isfinite(each) else None for name, each in row.items()}


def _evidence_row(evidence: BacktestEvidence) -> dict[str, Any]:
    row = evidence.row
    return {
        "trace": row.trace,
        "measure": row.measure,
        "pairs": row.pairs,
        "baseline_mean": row.baseline_mean,
        "candidate_mean": row.candidate_mean,
        "difference": row.difference,
        "low": row.low,
        "high": row.high,
        "chance": evidence.chance,
    }


# A recommendation as part of a ``broker.conf``: lines to set, and comments that say why.


_WIDTH: Final = 100
_MOST_OTHERS: Final = 10


def fragment_of(found: Recommendation) -> str:
    """The text; without a line to set where nothing is supported."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Recommendation) -> Iterator[str]:
    baseline, count = _describe(found.baseline), found.candidates
    yield from _comment(
        f"broker-ctl pipeline recommend: {len(found.supported)} of {count}"
        f" candidate{'s' if count != 1 else ''} supported, held against {baseline} on"
        f" {', '.join(found.traces)}."
    )
    if any(trace.startswith(RECORDED) for trace in found.traces):
        yield from _comment(
            "Recorded traffic was only once, and seeds are not days: pairs differ in who had what"
            " at the start. So one candidate was chosen on the first days, and judged on the later."
        )
    for best in found.supported[:1]:
        yield "#"
        yield from _evidence(best)
        entries = found.entries(best)
        if len(entries) > 1:
            yield from _comment("These lines were replayed together.")
        if best.candidate.policy == BALANCE:
            yield from _comment("All other settings were as they come.")
        for key, value in entries:
            yield line_of(key, value)
    if not found.supported:
        yield from _comment("No line is recommended: leave the settings as they are.")
    others = [
        f"also supported: {_describe(each.candidate)}; {_short(each)}"
        for each in found.supported[1:]
    ]
    others += [
        f"not supported: {_describe(each.candidate)}: {each.refusal}" for each in found.refused
    ]
    if others:
        yield "#"
    for text in others[:_MOST_OTHERS]:
        yield from _comment(text)
    if len(others) > _MOST_OTHERS:
        yield from _comment(f"and {len(others) - _MOST_OTHERS} more: --output json lists all.")


def _evidence(verdict: RuleVerdict) -> Iterator[str]:
    for trace in dict.fromkeys(each.row.trace for each in verdict.evidence):
        there = [each for each in verdict.evidence if each.row.trace == trace]
        yield from _comment(f"On {trace}, {there[0].row.pairs} pairs, 95 % intervals:")
        for each in there:
            yield from _comment(f"  {each.sentence}")
    for (trace, _, measure), days in verdict.held_out.items():
        yield from _comment(f"On later days of {trace}: {describe_days(measure, days)}")


def _short(verdict: RuleVerdict) -> str:
    return "; ".join(f"{each.row.trace}: {each.sentence}" for each in verdict.evidence)


def _describe(candidate: Named) -> str:
    return f"{candidate.policy} with {candidate.parameters or 'nothing set'}"


def _comment(text: str) -> list[str]:
    """Comment lines; names from other programs stay within them, so that none can set a line."""
    plain = printable(text)
    indent = "# " + " " * (len(plain) - len(plain.lstrip()))
    return textwrap.wrap(
        plain.strip(),
        width=_WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
