"""Small tools of counting and choosing: batches, streaks, ties broken by a seed."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

from broker_ctl.errors import SettingsError

# Splits items into lists of limited size (`itertools.batched` of Python 3.12).


_T = TypeVar("_T")


def batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield ``items`` in lists of ``size``; the last list may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


# Counts consecutive rounds in which a condition held, as hit counts of strategies need.
#
# One round in which the condition does not hold resets the count. A subject that cannot be judged
# in a round keeps its count: the new owner of a bundle that has just moved has not reported it
# yet.


K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Streaks(Generic[K]):
    """Counts by subject; a plain value, as is every strategy's memory."""

    counts: Mapping[K, int] = field(default_factory=dict)

    def of(self, subject: K) -> int:
        """Return the number of consecutive rounds, including the current one."""
        return self.counts.get(subject, 0)

    def after(self, met: Iterable[K], unjudged: Iterable[K] = ()) -> "Streaks[K]":
        """Return the counts after a round: ``met`` rise by one, ``unjudged`` stay, others reset."""
        kept = {subject: self.counts[subject] for subject in unjudged if subject in self.counts}
        return Streaks({**kept, **{subject: self.of(subject) + 1 for subject in met}})


# Ties broken by a seed: the same in the daemon, in the simulator and in Spark.


_MASK: Final = (1 << 64) - 1


def splitmix64(state: int) -> int:
    """Return one 64-bit random number of Steele, Lea and Flood's SplitMix from ``state``."""
    mixed = (state + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)


def rendezvous_choice(seed: int, key: str, options: Iterable[str]) -> str:
    """Choose one of ``options`` (at least one); their order does not matter.

    Rendezvous hashing: each option gets a number of its own, and the lowest wins. Removing an
    option changes only the choices that it had won.
    """
    start = splitmix64((seed & _MASK) ^ zlib.crc32(key.encode()))
    return min(
        options, key=lambda option: (splitmix64(start ^ zlib.crc32(option.encode())), option)
    )


# Finds strategies by the names that configuration files use.


@dataclass(frozen=True, slots=True)
class Catalog(Generic[_T]):
    """Strategies of one kind by short name: Pulsar's class name without its package."""

    kind: str
    entries: Mapping[str, _T]

    def short(self, name: str) -> str:
        """Return a class name without its package."""
        return name.rpartition(".")[2]

    def knows(self, name: str) -> bool:
        """Return whether the catalog has a strategy of that name."""
        return self.short(name) in self.entries

    def find(self, name: str) -> _T:
        """Return the strategy with that short name or Pulsar class name.

        Raises:
            SettingsError: there is no such strategy; the message lists the valid names.
        """
        short_name = self.short(name)
        if short_name not in self.entries:
            choices = ", ".join(sorted(self.entries))
            raise SettingsError(f"unknown {self.kind} {name!r}, allowed: {choices}")
        return self.entries[short_name]
