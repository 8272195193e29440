"""Topics by their place on the ring: names that hash to a wanted position.

CRC-32 is linear: changing one bit of a text changes the same bits of its hash, whatever the other
letters are. So the hash of a name is led to where it should be by choosing the bits of its last
letters, and nothing has to be tried.
"""

import zlib
from typing import Final

from broker_ctl.core.model.names import ring_hash

# The three lowest bits of the letters 0 to 7 are free; that many letters reach every hash.
_DIGITS: Final = 12
_BITS: Final = 3 * _DIGITS


def name_at(stem: str, position: int) -> str:
    """``stem`` and some digits, which together hash to ``position``.

    Raises:
        ValueError: no position on the ring.
    """
    if not 0 <= position < 1 << 32:
        raise ValueError(f"position {position}: 0 to 2^32 - 1")
    left = ring_hash(_name(stem, 0)) ^ position
    flipped = 0
    for top, (change, bits) in _BASIS.items():
        if left >> top & 1:
            left ^= change
            flipped ^= bits
    return _name(stem, flipped)


def _name(stem: str, bits: int) -> str:
    return f"{stem}{bits:0{_DIGITS}o}"


def _basis() -> dict[int, tuple[int, int]]:
    """By the highest bit of a change of the hash: the change, and the bits that make it."""
    zero = zlib.crc32(_name("", 0).encode())
    basis: dict[int, tuple[int, int]] = {}
    for number in range(_BITS):
        bits = 1 << number
        change = zlib.crc32(_name("", bits).encode()) ^ zero
        for top in sorted(basis, reverse=True):
            if change >> top & 1:
                change ^= basis[top][0]
                bits ^= basis[top][1]
        if change:
            basis[change.bit_length() - 1] = change, bits
    # In this order no later element changes a bit that an earlier one has settled.
    return {top: basis[top] for top in sorted(basis, reverse=True)}


_BASIS: Final = _basis()
