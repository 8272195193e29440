"""Connections whose clients are not known yet: where there are too many, the oldest leave first."""

from collections import defaultdict
from typing import Generic, TypeVar

T = TypeVar("T")


class Strangers(Generic[T]):
    """In the order of their arrival, of all addresses and of each one.

    There are no more keys than connections.
    """

    def __init__(self) -> None:
        self._origin_of: dict[T, str] = {}
        self._at: defaultdict[str, dict[T, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._origin_of)

    def add(self, one: T, origin: str) -> None:
        """The newest one."""
        self._origin_of[one] = origin
        self._at[origin][one] = None

    def discard(self, one: T) -> None:
        """It is known now, or gone."""
        origin = self._origin_of.pop(one, None)
        if origin is not None:
            of_origin = self._at[origin]
            del of_origin[one]
            if not of_origin:
                del self._at[origin]

    def count_of(self, origin: str) -> int:
        """How many an address has."""
        return len(self._at.get(origin, ()))

    def oldest(self) -> T | None:
        """The oldest of all; None: there is none."""
        return next(iter(self._origin_of), None)

    def oldest_of(self, origin: str) -> T | None:
        """The oldest of an address; None: it has none."""
        return next(iter(self._at.get(origin, ())), None)
