"""How long topics were unserved, from what the data planes have logged."""

from array import array
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from broker_ctl.dataplane.bundles.serve_log import ServeEvent

# Of a simulated data plane, in seconds.
TICK_S: Final = 0.1
_NS: Final = 1_000_000_000
_QUANTILES: Final = {"p99_s": 0.99, "p99_9_s": 0.999, "p99_99_s": 0.9999}
_ROUNDS: Final = 40


class Gaps:
    """Waits, gaps and acquisitions from a time on; events are added in order."""

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self._last_ns: dict[int, int] = {}
        # Each late tick is one: millions at the size of the goals.
        self._gaps = array("d")
        self._known: set[int] = set()
        self._acquired: set[int] = set()

    def add(self, events: Iterable[ServeEvent]) -> None:
        """Take events into account."""
        for event in events:
            if event.t_ns < self._begin_ns:
                self._known.add(event.token)
                continue
            self._acquired.add(event.token)
            for position in event.hashes:
                self._close(self._last_ns.get(position, self._begin_ns), event.t_ns)
                self._last_ns[position] = event.t_ns

    def figures(self, end_ns: int) -> dict[str, Any]:
        """What was found, if nothing else is served until ``end_ns``."""
        for last_ns in self._last_ns.values():
            self._close(last_ns, end_ns)
        gaps = np.frombuffer(self._gaps, dtype=np.float64)
        total_s = len(self._last_ns) * (end_ns - self._begin_ns) / _NS
        return {
            **{name: round(_wait_s(gaps, total_s, at), 3) for name, at in _QUANTILES.items()},
            "longest_gap_s": round(max(self._gaps, default=0.0), 3),
            "gaps_above_1_s": sum(gap > 1.0 for gap in self._gaps),
            "moves": len(self._acquired - self._known),
            "topics": len(self._last_ns),
        }

    def _close(self, last_ns: int, next_ns: int) -> None:
        gap_s = (next_ns - last_ns) / _NS - TICK_S
        if gap_s > 0:
            self._gaps.append(gap_s)


def _wait_s(gaps: npt.NDArray[np.float64], total_s: float, share: float) -> float:
    """The wait that this share of messages does not exceed, if they come evenly in time."""
    allowed_s = (1.0 - share) * total_s
    low, high = 0.0, float(gaps.max(initial=0.0))
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if np.maximum(gaps - middle, 0.0).sum() > allowed_s:
            low = middle
        else:
            high = middle
    return high
