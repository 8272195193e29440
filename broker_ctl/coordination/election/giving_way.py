"""When a candidate may stand again after a term: others go first if it ended early."""

import random

from broker_ctl.clock import Clock
from broker_ctl.core.machines.election import STABLE_S, pause_s


class GivingWay:
    """The pauses of one candidate, over all its terms (docs: pulsar-leader-election; anti-flap)."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._setbacks = 0
        self._led_since_s = 0.0
        self._due_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the candidate may stand; 0 or less: it may."""
        return self._due_s - self._clock.now_s()

    def on_elected(self) -> None:
        """A term begins."""
        self._led_since_s = self._clock.now_s()

    def on_stepped_down(self) -> None:
        """A term ends."""
        is_stable = self._clock.now_s() - self._led_since_s > STABLE_S
        self._setbacks = 0 if is_stable else self._setbacks + 1
        self._pause()

    def on_node_deleted(self) -> None:
        """Only now others can be elected: the node may have outlived the term."""
        self._pause()

    def _pause(self) -> None:
        self._due_s = self._clock.now_s() + pause_s(self._setbacks, self._rng.uniform(0, 1))
