"""What is done to both systems, and how long each took."""

import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tests.benchmarks.lines.progress import report_progress

LEADER_DIES: Final = "leader_dies"
CONTROLLER_DIES: Final = "controller_dies"
SHUTDOWN: Final = "controlled_shutdown"
REASSIGNMENT: Final = "reassignment"
CREATION: Final = "topic_creation"
DELETION: Final = "topic_deletion"
ROWS: Final = (LEADER_DIES, CONTROLLER_DIES, SHUTDOWN, REASSIGNMENT, CREATION, DELETION)


# Begin and end of a row, by the wall clock.
Window = tuple[float, float]
Acts = Mapping[str, Callable[[], Awaitable[Window]]]
# CPU seconds of each part of a system within a window.
CpuWithin = Callable[[float, float], Mapping[str, float]]


class Rows:
    """Seconds of each run, by row, and CPU seconds of each part."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._cpu_s: dict[str, list[Mapping[str, float]]] = defaultdict(list)

    def add(self, row: str, seconds: float, cpu_s: Mapping[str, float]) -> None:
        """One run."""
        self._seconds[row].append(seconds)
        self._cpu_s[row].append(cpu_s)

    def median_s(self, row: str) -> float | None:
        """None if there was no run."""
        return statistics.median(self._seconds[row]) if self._seconds[row] else None

    def median_cpu_s(self, row: str) -> dict[str, float]:
        """By part."""
        runs = self._cpu_s[row]
        parts = runs[0] if runs else ()
        return {part: round(statistics.median(run[part] for run in runs), 2) for part in parts}


async def run(system: str, acts: Acts, found: Rows, cpu_within: CpuWithin, *, counts: bool) -> None:
    """Each act once, which answers when it began and ended; ``counts``: the figures are kept."""
    for row in ROWS:
        began_s, ended_s = await acts[row]()
        report_progress(f"  {system}, {row}: {ended_s - began_s:.3f} s")
        if counts:
            found.add(row, ended_s - began_s, cpu_within(began_s, ended_s))


def side_by_side(ours: Rows, kafka: Rows) -> Mapping[str, Any]:
    """Medians of both, how many times as long Kafka took, and where they spent CPU time."""
    found: dict[str, Any] = {}
    for row in ROWS:
        our_s, kafka_s = ours.median_s(row), kafka.median_s(row)
        if our_s is not None and kafka_s is not None:
            found[row] = {
                "seconds": round(our_s, 3),
                "kafka_seconds": round(kafka_s, 3),
                "kafka_ratio": round(kafka_s / our_s, 2),
                "cpu_s": ours.median_cpu_s(row),
                "kafka_cpu_s": kafka.median_cpu_s(row),
            }
    return found
