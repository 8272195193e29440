"""Splits items into lists of limited size (`itertools.batched` of Python 3.12)."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


def batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield ``items`` in lists of ``size``; the last list may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
