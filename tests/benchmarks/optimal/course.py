"""The run from start to end."""

import sys
from collections.abc import Iterable
from typing import Any, Final

from broker_ctl.simulation.scenarios.catalogue import scenario
from tests.benchmarks.optimal.cases import draw_case
from tests.benchmarks.optimal.day import SCENARIOS, regret_of
from tests.benchmarks.optimal.gaps import Gap, gap_of, summary_of

_DAY_SECONDS: Final = 300.0


def run(numbers: Iterable[int], seconds: float, *, with_days: bool) -> dict[str, Any]:
    """The object."""
    gaps: list[Gap] = []
    for number in numbers:
        gap = gap_of(draw_case(number), seconds)
        gaps.append(gap)
        _report(
            f"case {number}: {gap.brokers} brokers, {gap.bundles} bundles, "
            f"{gap.resources} resources: maximum {gap.max_gap:+.1%}, moved {gap.moved_gap:+.1%}"
        )
    found: dict[str, Any] = summary_of(gaps) if gaps else {"cases": 0}
    if with_days:
        found["days"] = {}
        for name in SCENARIOS:
            found["days"][name] = regret_of(scenario(name), _DAY_SECONDS)
            _report(f"{name}: {found['days'][name]}")
    return found


def _report(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
