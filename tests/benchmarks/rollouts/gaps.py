"""How long topics were unserved, from what the data planes have logged."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from broker_ctl.dataplane.bundles.serve_log import ServeEvent

# Of a simulated data plane, in seconds.
TICK_S: Final = 0.1
_NS: Final = 1_000_000_000
_QUANTILES: Final = {"p99_s": 0.99, "p99_9_s": 0.999, "p99_99_s": 0.9999}
_ROUNDS: Final = 40


def figures(events: Iterable[ServeEvent], begin_ns: int, end_ns: int) -> dict[str, Any]:
    """Waits, gaps and acquisitions between two times, from events in order."""
    served: dict[int, list[int]] = {}
    known: set[int] = set()
    acquired: set[int] = set()
    for event in events:
        if event.t_ns > end_ns:
            break
        tokens = known if event.t_ns < begin_ns else acquired
        tokens.add(event.token)
        if event.t_ns >= begin_ns:
            for position in event.hashes:
                served.setdefault(position, []).append(event.t_ns)
    gaps = [
        max(0.0, (after - before) / _NS - TICK_S)
        for times in served.values()
        for before, after in pairwise([begin_ns, *times, end_ns])
    ]
    total_s = len(served) * (end_ns - begin_ns) / _NS
    return {
        **{name: round(_wait_s(gaps, total_s, share), 3) for name, share in _QUANTILES.items()},
        "longest_gap_s": round(max(gaps, default=0.0), 3),
        "gaps_above_1_s": sum(gap > 1.0 for gap in gaps),
        "moves": len(acquired - known),
        "topics": len(served),
    }


def _wait_s(gaps: Sequence[float], total_s: float, share: float) -> float:
    """The wait that this share of messages does not exceed, if they come evenly in time."""
    allowed_s = (1.0 - share) * total_s
    low, high = 0.0, max(gaps, default=0.0)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if sum(max(0.0, gap - middle) for gap in gaps) > allowed_s:
            low = middle
        else:
            high = middle
    return high
