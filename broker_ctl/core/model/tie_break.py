"""Ties broken by a seed: the same in the daemon, in the simulator and in Spark."""

import zlib
from collections.abc import Iterable
from typing import Final

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
