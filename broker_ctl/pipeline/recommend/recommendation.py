"""The recommendation: settings of the best candidate that a back-test supports, or none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.recommend.evidence import Findings
from broker_ctl.pipeline.recommend.held_out import HeldOut, judge_days
from broker_ctl.pipeline.recommend.lines import entries_of
from broker_ctl.pipeline.recommend.rule import Evidence, Verdict, judge_candidates, limit_of


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
    supported: tuple[Verdict, ...]
    refused: tuple[Verdict, ...]

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

    def entries(self, verdict: Verdict) -> tuple[tuple[str, str], ...]:
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


def _settable(verdict: Verdict, baseline: Named) -> Verdict:
    if verdict.refusal:
        return verdict
    try:
        entries_of(verdict.candidate, baseline)
    except PipelineError as error:
        return replace(verdict, refusal=str(error))
    return verdict


def _row(verdict: Verdict) -> dict[str, Any]:
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


def _evidence_row(evidence: Evidence) -> dict[str, Any]:
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
