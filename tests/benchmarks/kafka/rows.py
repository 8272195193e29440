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


class Rows:
    """Seconds of each run, by row."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def add(self, row: str, seconds: float) -> None:
        """One run."""
        self._seconds[row].append(seconds)

    def median_s(self, row: str) -> float | None:
        """None if there was no run."""
        return statistics.median(self._seconds[row]) if self._seconds[row] else None


async def run(
    system: str, acts: Mapping[str, Callable[[], Awaitable[float]]], found: Rows, *, counts: bool
) -> None:
    """Each act once, which answers how long it took in s; ``counts``: the figures are kept."""
    for row in ROWS:
        took_s = await acts[row]()
        report_progress(f"  {system}, {row}: {took_s:.3f} s")
        if counts:
            found.add(row, took_s)


def side_by_side(ours: Rows, kafka: Rows) -> Mapping[str, Any]:
    """Medians of both, and how many times as long Kafka took."""
    found: dict[str, Any] = {}
    for row in ROWS:
        our_s, kafka_s = ours.median_s(row), kafka.median_s(row)
        if our_s is not None and kafka_s is not None:
            found[row] = {
                "seconds": round(our_s, 3),
                "kafka_seconds": round(kafka_s, 3),
                "kafka_ratio": round(kafka_s / our_s, 2),
            }
    return found
