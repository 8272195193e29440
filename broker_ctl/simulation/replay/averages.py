"""The averages of all bundles at once, as the leader's board keeps them one by one.

A day of five hundred bundles is a million samples. They are folded by columns, and each number is
to the last bit what `BundleLoad.fold` makes of it with a weight of one.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.load import LONG_SAMPLES, SHORT_SAMPLES, BundleLoad, TimeAverage

Floats = NDArray[np.float64]

_LIMITS: Final = (SHORT_SAMPLES, LONG_SAMPLES)


def _kept(limit: int) -> Floats:
    """By the number of samples there were: how much of the average the next one leaves."""
    unsampled = 0.0
    rising = [samples / (samples + 1) for samples in range(1, limit)]
    full = 1 - 1 / limit
    return np.array([unsampled, *rising, full])


_KEPT: Final = tuple(_kept(limit) for limit in _LIMITS)


class Averages:
    """Short and long average of each bundle, by its place among all.

    Args:
        count: bundles; nobody has measured one of them.
    """

    def __init__(self, count: int) -> None:
        unseen = _columns([BundleLoad.unseen()] * count)
        self._values, self._samples, self._topics = unseen

    def fold(self, places: NDArray[np.int64], rates: Floats, topics: NDArray[np.int64]) -> None:
        """One sample of each bundle at ``places``: rates of shape (4, places)."""
        for row, limit in enumerate(_LIMITS):
            samples = self._samples[row, places]
            keep = _KEPT[row][samples]
            before = self._values[row][:, places]
            self._values[row][:, places] = before * keep + rates * (1 - keep)
            self._samples[row, places] = np.minimum(samples + 1, limit)
        self._topics[places] = topics

    def replace(self, place: int, count: int, new: Sequence[BundleLoad]) -> None:
        """Other bundles take the place of ``count`` of them."""
        values, samples, topics = _columns(new)
        stop = place + count
        self._values = np.concatenate(
            [self._values[..., :place], values, self._values[..., stop:]], axis=2
        )
        self._samples = np.concatenate(
            [self._samples[:, :place], samples, self._samples[:, stop:]], axis=1
        )
        self._topics = np.concatenate([self._topics[:place], topics, self._topics[stop:]])

    def all(self) -> list[BundleLoad]:
        """Of each bundle."""
        short, long = (
            map(
                TimeAverage,
                repeat(limit),
                self._samples[row].tolist(),
                *self._values[row].tolist(),
            )
            for row, limit in enumerate(_LIMITS)
        )
        return list(map(BundleLoad, short, long, self._topics.tolist()))

    def of(self, place: int) -> BundleLoad:
        """Of one bundle."""
        short, long = (
            TimeAverage(
                limit, int(self._samples[row, place]), *self._values[row][:, place].tolist()
            )
            for row, limit in enumerate(_LIMITS)
        )
        return BundleLoad(short, long, int(self._topics[place]))


def _columns(
    loads: Sequence[BundleLoad],
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Values of shape (2, 4, loads), samples of shape (2, loads), topics."""
    pairs = [(load.short, load.long) for load in loads]
    values = [
        [
            [pair[row].msg_rate_in for pair in pairs],
            [pair[row].msg_rate_out for pair in pairs],
            [pair[row].msg_throughput_in for pair in pairs],
            [pair[row].msg_throughput_out for pair in pairs],
        ]
        for row in range(2)
    ]
    samples = [[int(pair[row].samples) for pair in pairs] for row in range(2)]
    topics = [load.topics for load in loads]
    return (
        np.array(values, dtype=np.float64),
        np.array(samples, dtype=np.int64),
        np.array(topics, dtype=np.int64),
    )
