"""How late the timers of an event loop are that has nothing else to do, in a process of its own.

What it finds is the machine's: no loop beside it can be better. It runs at the same time as what is
measured, since the machines that measure are shared and their speed changes within minutes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any, Final

from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.pacing import every, now_s, pace
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)

_PERIOD_S: Final = 0.05
# For the start of the process, and its answer.
_ANSWER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Idling:
    """Task of the process."""

    seconds: float


async def idle_lag_ms(seconds: float) -> dict[str, Any]:
    """Quantiles, while the caller does something else."""
    return await measured_apart(__name__, asdict(Idling(seconds)), seconds + _ANSWER_S)


async def _measured(task: Idling) -> Mapping[str, Any]:
    lags_s: list[float] = []
    end_s = now_s() + task.seconds
    dues_s = takewhile(lambda due_s: due_s < end_s, every(_PERIOD_S))
    await pace(dues_s, lambda due_s: lags_s.append(now_s() - due_s))
    return {
        "p50": quantile_ms(lags_s, 0.5),
        "p99": quantile_ms(lags_s, 0.99),
        "max": quantile_ms(lags_s, 1.0),
    }


def main() -> None:
    """Idle in this process."""
    answer(run_on_uvloop(_measured(Idling(**task_of_this_process()))))


if __name__ == "__main__":
    main()
