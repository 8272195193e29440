"""The throttle of replicas that a reassignment adds, in bytes a second.

A token bucket. Whatever may continue gets a grant of a tenth of a second's bytes, in the order in
which it began to wait, so that no partition starves. A record is not divided: what exceeds a grant
is a debt, and the next grant waits until it is paid.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from broker_ctl.clock import Clock

T = TypeVar("T")

# Bytes of a grant, and of what is saved up while nothing waits, as seconds of the rate.
_GRANT_S: Final = 0.1
_SAVED_S: Final = 1.0


class Throttle(Generic[T]):
    """The bytes that may be copied, and what waits for them; without a rate nothing waits.

    Attributes:
        rate: bytes a second; None: no limit.
    """

    def __init__(self, clock: Clock) -> None:
        self.rate: int | None = None
        self._clock = clock
        self._left = 0.0
        self._at_s = 0.0
        self._waiting: dict[T, None] = {}

    def set_rate(self, rate: int | None) -> None:
        """Change the rate; debts in bytes remain."""
        if rate != self.rate:
            self._refill()
            self.rate = rate

    def wait(self, one: T) -> None:
        """Wait for a grant, behind all that wait already."""
        self._waiting[one] = None

    def forget(self, one: T) -> None:
        """Wait no more."""
        self._waiting.pop(one, None)

    def grants(self) -> Iterator[tuple[T, int]]:
        """What may continue now, each with its bytes, which are spent."""
        self._refill()
        while self._waiting and (self.rate is None or self._left >= self._grant):
            one = next(iter(self._waiting))
            del self._waiting[one]
            self._left -= self._grant
            yield one, self._grant

    def spend(self, size: int) -> None:
        """Account for bytes beyond a grant; negative: the grant was not used up."""
        if self.rate is not None:
            self._refill()
            self._left -= size

    def wait_s(self) -> float | None:
        """Seconds until the next grant; None: nothing waits."""
        if not self._waiting:
            return None
        self._refill()
        return 0.0 if self.rate is None else max(0.0, (self._grant - self._left) / self.rate)

    @property
    def _grant(self) -> int:
        return 0 if self.rate is None else max(1, round(self.rate * _GRANT_S))

    def _refill(self) -> None:
        now_s = self._clock.now_s()
        if self.rate is None:
            self._left = 0.0
        else:
            earned = self.rate * max(0.0, now_s - self._at_s)
            self._left = min(self._left + earned, max(self._grant, self.rate * _SAVED_S))
        self._at_s = now_s
