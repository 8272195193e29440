"""The run from start to end."""

import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.replay.replay import POLICIES
from broker_ctl.simulation.scenarios import NAMES, is_daily
from tests.benchmarks.balancing.part import WHOLE, Part
from tests.benchmarks.balancing.runs import Run, Source, all_of, scenario_of
from tests.benchmarks.balancing.verdict import verdict

_DAY_HOURS: Final = 24


@dataclass(frozen=True)
class Wanted:
    """What is measured.

    Attributes:
        has_planning: whether planning is measured: with all scenarios of one seed, in the first
            part.
    """

    runs: tuple[Run, ...]
    has_planning: bool

    @classmethod
    def of(
        cls,
        *,
        names: Sequence[str] | None,
        policies: Sequence[str] | None,
        hours: int,
        seeds: Sequence[int] | None = None,
        part: Part = WHOLE,
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
            own: list[int | None] = [None]
            sources = [
                Source(name, hours, seed=seed)
                for name in dict.fromkeys(names or all_names)
                for seed in dict.fromkeys(seeds or own)
            ]
        # Better now than after the first half of an hour.
        for source in sources:
            scenario_of(source)
        runs = [Run(source, policy) for source in sources for policy in chosen]
        is_complete = trace is None and not names and not seeds
        return cls(tuple(part.of(runs)), is_complete and part.number == 1)


def run(wanted: Wanted, jobs: int) -> dict[str, Any]:
    """The object."""
    found: dict[str, Any] = {"scenarios": {}, "bound": {}}
    if wanted.has_planning:
        from tests.benchmarks.balance_planning import planning

        found |= planning()
    done = {each.run: each for each in all_of(wanted.runs, jobs)}
    for each in wanted.runs:
        label = each.source.label
        found["scenarios"].setdefault(label, {})[each.policy] = done[each].scores
        found["bound"][label] = done[each].bound
    found["verdict"] = verdict(found["scenarios"], found["bound"])
    found["peak_rss_mb"] = _peak_rss_mb()
    return found


def _peak_rss_mb() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in whose) / 1024
