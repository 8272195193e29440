"""The phases of a run, and what they add up to."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.cluster.cluster import RECOVERY_S, Cluster, now_s
from tests.chaos.faults.configuration_faults import Fault
from tests.chaos.faults.faults import FAULTS
from tests.chaos.judges.acts import Guard
from tests.chaos.judges.planted import sentences
from tests.chaos.phase import Phase, Report
from tests.chaos.progress import Progress


@dataclass(frozen=True, slots=True)
class Options:
    """What to do, for how long, and where; ``kinds`` are of ``faults``."""

    seconds: float
    seed: int
    kinds: Sequence[str]
    guards: Sequence[Guard]
    directory: Path
    faults: Mapping[str, Fault] = field(default_factory=lambda: FAULTS)
    cluster: type[Cluster] = Cluster


@dataclass(frozen=True, slots=True)
class Result:
    """Of all phases together."""

    seconds: float
    seed: int
    guards: Sequence[Guard]
    reports: Sequence[Report]

    @property
    def violations(self) -> list[str]:
        return [said for report in self.reports for said in report.violations]

    @property
    def sentence(self) -> str:
        row = self.to_row()
        return (
            f"{sum(row['faults'].values())} faults, {row['acquisitions']} acquisitions, "
            f"{len(row['violations'])} violations, recovery {row['recovery_s']}"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        faults: Counter[str] = sum((report.faults for report in self.reports), Counter())
        recoveries = sorted(one for report in self.reports for one in report.recoveries_s)
        return {
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
            "faults": dict(sorted(faults.items())),
            "acquisitions": sum(report.acquisitions for report in self.reports),
            "acts": sum(report.acts for report in self.reports),
            "refused_acts": sum(report.refused for report in self.reports),
            # I10 and I11 are what a run that ends shows.
            "checked": sorted(set[str]().union(*(sentences(one) for one in self.guards))),
            "committed_records": sum(report.committed for report in self.reports),
            "leader_elections": sum(report.elections for report in self.reports),
            "lookups": {
                "hops": _summed(report.hops for report in self.reports),
                "statuses": _summed(report.lookup_statuses for report in self.reports),
            },
            "violations": self.violations,
            "recovery_s": {
                "p50": _quantile(recoveries, 0.5),
                "p99": _quantile(recoveries, 0.99),
                "max": _quantile(recoveries, 1.0),
                "bound": RECOVERY_S,
            },
        }


def schedule(kinds: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Every kind once, in an order of its own, and again."""
    while True:
        yield from draw.sample(kinds, len(kinds))


def _summed(counts: Iterable[Counter[int]]) -> dict[str, int]:
    total: Counter[int] = sum(counts, Counter())
    return {str(key): total[key] for key in sorted(total)}


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)


async def run(options: Options) -> Result:
    """All phases, one after the other, in equal parts of the time."""
    draw = random.Random(options.seed)
    progress = Progress(options.seconds)
    # One schedule for all phases, or each would leave out others of the last kinds.
    kinds = schedule(options.kinds, draw)
    begin_s = now_s()
    reports = []
    for guard in options.guards:
        phase = Phase(
            guard,
            kinds,
            options.directory / guard,
            draw,
            progress,
            faults=options.faults,
            cluster=options.cluster,
        )
        reports.append(await phase.run(options.seconds / len(options.guards)))
    return Result(now_s() - begin_s, options.seed, options.guards, reports)
