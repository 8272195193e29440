"""Long work in steps: a generator that yields where a breath may be taken, and returns the result.

Whoever has an event loop gives it a turn at each breath; whoever has none runs it to the end.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")

Steps = Generator[None, None, _T]


def finished(steps: Steps[_T]) -> _T:
    """The result, without a break."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _T = stop.value
            return result


def batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """``items`` in lists of ``size``, the last one shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
