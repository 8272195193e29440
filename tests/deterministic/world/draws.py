"""What clients and faults draw: each step has draws of its own.

So a schedule without one of its steps draws alike in all others, and a failing one can be shrunk.
"""

from contextvars import ContextVar
from random import Random

_step: ContextVar[Random] = ContextVar("draws of the step")


class StepDraws(Random):
    """Draws of the step in whose task they are asked for; outside of a step draws of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed
        self._outside = Random(f"outside of steps {seed}")

    def begin_step(self, number: int) -> None:
        """What the running task draws from here on, and what it starts, belongs to this step."""
        _step.set(Random(f"step {number} of {self._seed}"))

    def end_step(self) -> None:
        """What the running task draws belongs to no step."""
        _step.set(self._outside)

    def random(self) -> float:
        return self._now.random()

    def getrandbits(self, k: int, /) -> int:
        return self._now.getrandbits(k)

    @property
    def _now(self) -> Random:
        return _step.get(self._outside)
