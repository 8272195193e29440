"""How long a broker of a rollout has shown no progress."""

from collections.abc import Hashable

from broker_ctl.clock import Clock


class Patience:
    """Counts by this leader's monotonic clock: a step of the wall clock stops no rollout.

    The next leader counts from the start.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[Hashable, float]] = {}

    def waited_s(self, broker_id: str, sign: Hashable) -> float:
        """Seconds since the broker first gave this sign of life, without another one between."""
        now_s = self._clock.now_s()
        known = self._seen.get(broker_id)
        if known is None or known[0] != sign:
            known = self._seen[broker_id] = sign, now_s
        return now_s - known[1]
