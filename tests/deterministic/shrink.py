"""The fewest steps of a schedule that still violate the same invariant.

Each step draws by itself and happens at its own time, whichever others are left out. Delays of
messages are drawn by the world, so a smaller schedule may need other luck: what is found is the
smallest that was met, not the smallest that there is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.deterministic.schedule import Schedule
from tests.deterministic.world.wire import Coverage

# Most of a run of schedules is looking for violations; this much is for one that was found.
MOST_RUNS: Final = 250


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What is left of a schedule.

    Attributes:
        steps: names of the steps by number; none are needed where the recovery alone violates it.
        violations: of the schedule with only these steps.
        runs: how many schedules were run to find it.
    """

    seed: int
    steps: dict[int, str]
    violations: tuple[str, ...]
    runs: int

    @property
    def command(self) -> str:
        """How to see it happen."""
        steps = ",".join(map(str, self.steps)) or "none"
        return f"python -m tests.deterministic --seed {self.seed} --steps {steps} --trace"

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "steps": [f"{number} {name}" for number, name in self.steps.items()],
            "what": list(self.violations),
            "runs": self.runs,
            "command": self.command,
        }


class _Shrinking:
    """Runs a schedule with fewer steps, as long as that may be tried."""

    def __init__(self, seed: int, most_runs: int) -> None:
        self._seed = seed
        self._most_runs = most_runs
        self.runs = 0
        first = self._run(None)
        self.violations = first.violations
        self.steps = first.steps
        self._broken = {_invariant(said) for said in first.violations}

    def _run(self, only: Collection[int] | None) -> "_Run":
        self.runs += 1
        schedule = Schedule(self._seed, Coverage(), only=only)
        outcome = schedule.run()
        return _Run(outcome.violations, schedule.taken)

    @property
    def is_over(self) -> bool:
        return self.runs >= self._most_runs

    def keep(self, only: Sequence[int]) -> bool:
        """Whether these steps suffice; then they are what is left."""
        found = self._run(only)
        if self._broken.isdisjoint(map(_invariant, found.violations)):
            return False
        self.violations, self.steps = found.violations, found.steps
        return True


@dataclass(frozen=True, slots=True)
class _Run:
    violations: tuple[str, ...]
    steps: dict[int, str]


def shrink(seed: int, most_runs: int = MOST_RUNS) -> Shrunk | None:
    """Leave steps out, in halves, then in ever smaller parts; None if nothing is violated."""
    work = _Shrinking(seed, most_runs)
    if not work.violations:
        return None
    parts = 1
    while not work.is_over:
        kept = list(work.steps)
        size = -(-len(kept) // parts)
        chunks = [kept[at : at + size] for at in range(0, len(kept), size)] if kept else []
        # The last steps come first: what happened after the cause is the easiest to leave out.
        for chunk in reversed(chunks):
            if work.is_over:
                break
            rest = [number for number in work.steps if number not in chunk]
            if len(rest) < len(work.steps):
                work.keep(rest)
        if size <= 1 and len(work.steps) == len(kept):
            break
        parts = min(max(2, 2 * parts), max(1, len(work.steps)))
    return Shrunk(seed, work.steps, work.violations, work.runs)


def _invariant(said: str) -> str:
    return said.partition(":")[0]
