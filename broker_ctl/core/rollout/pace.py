"""How many bundles leave a broker at once: as many as their interruption allows.

The measure is how long the slowest moves of a group take, since a topic is unserved for a part of
its move. Additive increase and multiplicative decrease, as congestion windows do.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

_TARGET_S: Final = 0.4
_MOST: Final = 16


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of drains, those of a rollout among them.

    Attributes:
        moves: moves in flight from one broker.
        least: below this it never falls: the limit of any drain.
    """

    moves: int
    least: int

    @classmethod
    def of(cls, least: int) -> Self:
        """The first pace."""
        return cls(least, least)

    def after(self, moved: int, took_s: float) -> Self:
        """The pace after a group of moves that took this long together."""
        if took_s > _TARGET_S:
            return replace(self, moves=max(self.least, self.moves // 2))
        if moved >= self.moves:
            return replace(self, moves=max(self.least, min(_MOST, self.moves + self.least)))
        return self
