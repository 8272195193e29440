"""Leaky buckets, one for each key, in bounded memory.

A bucket is one number: the time at which it will have leaked empty (the generic cell rate algorithm
of ITU-T I.371, annex A). An empty bucket is the same as none, so it can be forgotten at any time.
"""

from typing import Final

MAX_BUCKETS: Final = 16_384
# Empty buckets are looked for at most once in this time, so that a full table costs little.
_SWEEP_INTERVAL_S: Final = 1.0
# Shared by all keys for which there is no room.
_OTHERS: Final = ""


class Buckets:
    """The levels of all keys, in seconds of leaking.

    If as many buckets as there may be are not empty, further keys share one: those that are known
    already keep theirs.
    """

    def __init__(self, max_buckets: int = MAX_BUCKETS) -> None:
        self._max_buckets = max_buckets
        self._empty_at_s: dict[str, float] = {}
        self._next_sweep_s = 0.0

    def __len__(self) -> int:
        return len(self._empty_at_s)

    def level_s(self, key: str, now_s: float) -> float:
        """The time until the bucket is empty; 0: it is."""
        empty_at_s = self._empty_at_s.get(key)
        if empty_at_s is None:
            empty_at_s = self._empty_at_s.get(self._place_of(key, now_s), 0.0)
        return max(0.0, empty_at_s - now_s)

    def highest_s(self, now_s: float) -> float:
        """The time until the fullest bucket is empty; 0: all are."""
        return max(0.0, max(self._empty_at_s.values(), default=now_s) - now_s)

    def pour(self, key: str, added_s: float, now_s: float) -> None:
        """Raise the level by ``added_s``."""
        place = self._place_of(key, now_s)
        self._empty_at_s[place] = max(self._empty_at_s.get(place, 0.0), now_s) + added_s

    def _place_of(self, key: str, now_s: float) -> str:
        if key in self._empty_at_s or len(self._empty_at_s) < self._max_buckets:
            return key
        if now_s >= self._next_sweep_s:
            self._next_sweep_s = now_s + _SWEEP_INTERVAL_S
            self._empty_at_s = {
                place: empty_at_s
                for place, empty_at_s in self._empty_at_s.items()
                if empty_at_s > now_s
            }
        return key if len(self._empty_at_s) < self._max_buckets else _OTHERS
