"""The kinds of instruments: plain values that any floor may be given.

Nothing here knows who reads them. One event loop writes, so there are no locks; an observation
costs a look-up and an addition.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, Final

# Values of an instrument's labels, in the order in which they were declared.
Labels = tuple[str, ...]
Reading = Callable[[], float | Mapping[Labels, float]]
# How many observations there were, and the newest of them.
Observed = Callable[[], tuple[int, Iterable[float]]]

MAX_SERIES: Final = 256
OTHER: Final = "other"
_QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """One number: of the series ``name``, with label names and values."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True, eq=False)
class Instrument:
    """What all kinds have: the exposed name, a sentence, label names, and labels that never vary.

    The set of label values is bounded: the 257th combination and all after it are counted
    together, under ``other``, so that no input can fill memory or a time-series database.
    """

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ("",)

    name: str
    help: str
    labels: Labels = ()
    constants: Mapping[str, str] = field(default_factory=dict)

    def samples(self) -> Iterable[Sample]:
        """All series as they are now."""
        raise NotImplementedError

    def _key(self, labels: Labels, known: Mapping[Labels, object]) -> Labels:
        """The series to write to; called when ``labels`` are seen for the first time."""
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {labels}")
        return labels if len(known) < MAX_SERIES else (OTHER,) * len(self.labels)

    def _sample(self, labels: Labels, value: float, suffix: str = "", **extra: str) -> Sample:
        named = dict(zip(self.labels, labels, strict=True))
        return Sample(self.name + suffix, {**self.constants, **named, **extra}, value)


@dataclass(slots=True, eq=False)
class Counter(Instrument):
    """Only grows. Without labels it is there from the start, at 0."""

    kind: ClassVar[str] = "counter"
    _values: dict[Labels, float] = field(default_factory=dict)

    def add(self, *labels: str, amount: float = 1) -> None:
        """Count ``amount`` more."""
        if labels not in self._values:
            labels = self._key(labels, self._values)
        self._values[labels] = self._values.get(labels, 0) + amount

    def samples(self) -> Iterator[Sample]:
        """One per series."""
        values = self._values or ({} if self.labels else {(): 0.0})
        return (self._sample(labels, value) for labels, value in values.items())


@dataclass(slots=True, eq=False)
class Gauge(Instrument):
    """Read when somebody asks. ``follow`` says how; before that there is no series."""

    kind: ClassVar[str] = "gauge"
    _read: Reading | None = None

    def follow(self, read: Reading) -> None:
        """Ask ``read`` from now on: a number, or one per label values. It must not raise."""
        self._read = read

    def samples(self) -> Iterator[Sample]:
        """What was read just now."""
        if self._read is None:
            return iter(())
        value = self._read()
        values = value if isinstance(value, Mapping) else {(): value}
        return (self._sample(labels, value) for labels, value in values.items())


@dataclass(slots=True, eq=False)
class Total(Gauge):
    """A count that somebody else keeps anyway, such as the hits of a cache."""

    kind: ClassVar[str] = "counter"


@dataclass(slots=True, eq=False)
class _Buckets:
    counts: list[int]
    total: float = 0.0


@dataclass(slots=True, eq=False)
class Histogram(Instrument):
    """How many observations lie at or below each bound; the last bucket has none."""

    kind: ClassVar[str] = "histogram"
    suffixes: ClassVar[tuple[str, ...]] = ("_bucket", "_count", "_sum")
    bounds: tuple[float, ...] = ()
    _series: dict[Labels, _Buckets] = field(default_factory=dict)

    def observe(self, value: float, *labels: str) -> None:
        """Take one observation, in the unit that the name ends in."""
        series = self._series.get(labels)
        if series is None:
            key = self._key(labels, self._series)
            empty = _Buckets([0] * (len(self.bounds) + 1))
            series = self._series.setdefault(key, empty)
        series.counts[bisect_left(self.bounds, value)] += 1
        series.total += value

    def samples(self) -> Iterator[Sample]:
        """Cumulative buckets, count and sum of each series."""
        edges = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        for labels, series in self._series.items():
            for edge, count in zip(edges, accumulate(series.counts), strict=True):
                yield self._sample(labels, count, "_bucket", le=edge)
            yield self._sample(labels, sum(series.counts), "_count")
            yield self._sample(labels, series.total, "_sum")


@dataclass(slots=True, eq=False)
class Summary(Instrument):
    """Quantiles of the newest observations, which somebody else keeps."""

    kind: ClassVar[str] = "summary"
    suffixes: ClassVar[tuple[str, ...]] = ("", "_count")
    _read: Observed | None = None

    def follow(self, read: Observed) -> None:
        """Ask ``read`` from now on: how many there were, and the newest. It must not raise."""
        self._read = read

    def samples(self) -> Iterator[Sample]:
        """Quantiles and count."""
        if self._read is None:
            return
        count, newest = self._read()
        ordered = sorted(newest)
        for quantile in _QUANTILES if ordered else ():
            rank = min(int(quantile * len(ordered)), len(ordered) - 1)
            yield self._sample((), ordered[rank], quantile=str(quantile))
        yield self._sample((), count, "_count")
