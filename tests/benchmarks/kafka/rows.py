"""What is done to both systems, and how long each took."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

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


class System(Protocol):
    """One of the two, whose acts answer when they began and ended."""

    @property
    def seconds(self) -> Rows:
        """What was measured."""
        ...

    async def leader_dies(self) -> Window:
        """The broker that leads everything dies, while another one is the controller."""
        ...

    async def controller_dies(self) -> Window:
        """The controller's node is deleted."""
        ...

    async def shutdown(self) -> Window:
        """The broker that leads everything asks to be let go."""
        ...

    async def reassignment(self) -> Window:
        """A topic moves from one broker to another."""
        ...

    async def creation(self) -> Window:
        """The large topic is made."""
        ...

    async def deletion(self) -> Window:
        """It is deleted."""
        ...


async def run(
    name: str, system: System, only: Collection[str], cpu_within: CpuWithin, *, counts: bool
) -> None:
    """Each of the rows ``only`` once; ``counts``: the figures are kept."""
    acts = {
        LEADER_DIES: system.leader_dies,
        CONTROLLER_DIES: system.controller_dies,
        SHUTDOWN: system.shutdown,
        REASSIGNMENT: system.reassignment,
        CREATION: system.creation,
        DELETION: system.deletion,
    }
    for row in ROWS:
        if row not in only:
            continue
        began_s, ended_s = await acts[row]()
        report_progress(f"  {name}, {row}: {ended_s - began_s:.3f} s")
        if counts:
            system.seconds.add(row, ended_s - began_s, cpu_within(began_s, ended_s))


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
