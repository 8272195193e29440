"""Rules of the caches, and of the writes through them, as values."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How long an answer is valid, and how much is cached (docs: pulsar-caches).

    Attributes:
        refresh_s: an answer of this age is still served, and refreshed in the background.
        expiry_s: an answer of this age is not served any more.
        most_bytes: bound on the estimated size of all entries of one cache.
        most_entries: bound on their number.
    """

    refresh_s: float = 150.0
    expiry_s: float = 300.0
    most_bytes: int = 64 * 1024 * 1024
    most_entries: int = 100_000

    @classmethod
    def expiring(cls, expiry_s: float) -> Self:
        """Refresh at half of the expiry time, which is the ratio of Pulsar's caches."""
        return cls(refresh_s=expiry_s / 2, expiry_s=expiry_s)


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """How often a write that lost a race is retried (docs: pulsar-caches).

    Attributes:
        first_s: longest pause after the first attempt; it doubles with each further one.
        most_s: longest pause of all.
        stop_s: no attempt begins later than this after the first.
    """

    first_s: float = 0.005
    most_s: float = 3.0
    stop_s: float = 30.0
