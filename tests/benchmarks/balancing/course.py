"""The run from start to end."""

import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.replay.baselines import POLICIES
from broker_ctl.simulation.scenarios.catalogue import NAMES, is_daily
from tests.benchmarks.balancing.runs import Run, Source, all_of, scenario_of
from tests.benchmarks.balancing.verdict import verdict

_DAY_HOURS: Final = 24


@dataclass(frozen=True)
class Wanted:
    """What is measured.

    Attributes:
        is_complete: all scenarios, so that planning belongs to it.
    """

    sources: tuple[Source, ...]
    policies: tuple[str, ...]
    is_complete: bool

    @classmethod
    def of(
        cls,
        *,
        names: Sequence[str] | None,
        policies: Sequence[str] | None,
        hours: int,
        trace: Path | None = None,
        events: Path | None = None,
        brokers: int = 10,
    ) -> Self:
        """Check the given options; those left out take their defaults.

        Raises:
            SettingsError: an unknown name, or files that cannot be read.
        """
        chosen = tuple(dict.fromkeys(policies or POLICIES))
        for name in chosen:
            if name not in POLICIES:
                raise SettingsError(f"policy {name!r}: one of {', '.join(POLICIES)}")
        if trace is not None:
            sources = [Source(trace.stem, 0, trace, events, brokers)]
        else:
            all_names = [name for name in NAMES if hours <= _DAY_HOURS or is_daily(name)]
            sources = [Source(name, hours) for name in dict.fromkeys(names or all_names)]
        # Better now than after the first half of an hour.
        for source in sources:
            scenario_of(source)
        return cls(tuple(sources), chosen, trace is None and not names)


def run(wanted: Wanted, jobs: int) -> dict[str, Any]:
    """The object."""
    found: dict[str, Any] = {"scenarios": {}, "bound": {}}
    if wanted.is_complete:
        from tests.benchmarks.balance_planning import planning

        found |= planning()
    runs = [Run(source, policy) for source in wanted.sources for policy in wanted.policies]
    scores: dict[str, dict[str, Any]] = {source.name: {} for source in wanted.sources}
    bounds: dict[str, float] = {}
    for done in all_of(runs, jobs):
        scores[done.run.source.name][done.run.policy] = done.scores
        bounds[done.run.source.name] = done.bound
    found["scenarios"] = {
        name: {policy: by_policy[policy] for policy in wanted.policies}
        for name, by_policy in scores.items()
    }
    found["bound"] = {name: bounds[name] for name in scores}
    found["verdict"] = verdict(found["scenarios"], found["bound"])
    found["peak_rss_mb"] = _peak_rss_mb()
    return found


def _peak_rss_mb() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whose) / 1024
