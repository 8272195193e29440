"""What is searched: the whole specification within its bounds, and without each of its guards."""

from collections.abc import Mapping
from typing import Final

from tests.model.checker import Run

_LEASE: Final[Mapping[str, int]] = {"LONG": 9, "SHORT": 6}
_RING: Final[Mapping[str, int]] = {
    "MOST_GENERATION": 3,
    "MOST_VERSION": 2,
    "MOST_EPOCH": 0,
    "MOST_RECORD": 0,
    "MOST_EXPIRIES": 2,
}
_MOVE: Final[Mapping[str, int]] = {
    "MOST_GENERATION": 1,
    "MOST_VERSION": 0,
    "MOST_EPOCH": 2,
    "MOST_RECORD": 2,
    "MOST_EXPIRIES": 0,
}

WHOLE: Final = (
    Run("lease", "lease.pml", _LEASE),
    Run("ring", "ownership.pml", _RING),
    Run("move", "ownership.pml", _MOVE),
)


def _without(run: Run, *guards: str) -> tuple[Run, ...]:
    return tuple(
        Run(f"{run.name} without {guard}", run.spec, run.bounds, guard) for guard in guards
    )


COUNTEREXAMPLES: Final = (
    *_without(WHOLE[0], "KEEP_OLD_TIMEOUT", "CREDIT_ANY_BEAT", "LOSE_HANDSHAKES"),
    *_without(WHOLE[1], "LOOK_THEN_DELETE", "NO_GENERATION", "NO_RING", "EARLY_AUTHORITY", "STEAL"),
    *_without(WHOLE[2], "NO_EPOCH", "NO_RECORD"),
)
RUNS: Final = (*WHOLE, *COUNTEREXAMPLES)
