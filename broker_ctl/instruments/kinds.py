"""The kinds of instruments: plain values that any part can update.

Instruments do not know their readers. Only the event loop writes them, so there are no locks; an
observation costs a look-up and an addition.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, Final

# Values of an instrument's labels, in the order in which they were declared.
Labels = tuple[str, ...]
Reading = Callable[[], float | Mapping[Labels, float]]
# Number of observations so far, and the newest of them.
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
    """Common to all kinds: exposed name, help, label names, and labels with constant values.

    The set of label values is bounded: the 257th combination and all later ones are counted
    together under ``other``, so that no input can fill memory or a time-series database.
    """

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ("",)

    name: str
    help: str
    labels: Labels = ()
    constants: Mapping[str, str] = field(default_factory=dict)

    def samples(self) -> Iterable[Sample]:
        """The current samples of all series."""
        raise NotImplementedError

    def _key(self, labels: Labels, known: Mapping[Labels, object]) -> Labels:
        """The series to write to; called when ``labels`` are first used."""
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {labels}")
        return labels if len(known) < MAX_SERIES else (OTHER,) * len(self.labels)

    def _sample(self, labels: Labels, value: float, suffix: str = "", **extra: str) -> Sample:
        named = dict(zip(self.labels, labels, strict=True))
        return Sample(self.name + suffix, {**self.constants, **named, **extra}, value)


@dataclass(slots=True, eq=False)
class Counter(Instrument):
    """A count that only grows. Without labels it starts at 0 immediately."""

    kind: ClassVar[str] = "counter"
    _values: dict[Labels, float] = field(default_factory=dict)

    def add(self, *labels: str, amount: float = 1) -> None:
        """Add ``amount``."""
        if labels not in self._values:
            labels = self._key(labels, self._values)
        self._values[labels] = self._values.get(labels, 0) + amount

    def start(self, *labels: str) -> None:
        """Have a series at 0: Prometheus sees no increase where a series begins at 1."""
        self.add(*labels, amount=0)

    def samples(self) -> Iterator[Sample]:
        """One sample per series."""
        values = self._values or ({} if self.labels else {(): 0.0})
        return (self._sample(labels, value) for labels, value in values.items())


@dataclass(slots=True, eq=False)
class Gauge(Instrument):
    """A value read at each scrape by the functions given to ``bind``; no series before that."""

    kind: ClassVar[str] = "gauge"
    _reads: list[Reading] = field(default_factory=list)

    def bind(self, read: Reading) -> None:
        """Also read ``read`` at each scrape: a number, or one per label values. It must not raise.

        Several functions must have distinct label values.
        """
        self._reads.append(read)

    def samples(self) -> Iterator[Sample]:
        """The values as read now."""
        for read in self._reads:
            value = read()
            values = value if isinstance(value, Mapping) else {(): value}
            yield from (self._sample(labels, value) for labels, value in values.items())


@dataclass(slots=True, eq=False)
class Total(Gauge):
    """A count that another part keeps anyway, such as the hits of a cache."""

    kind: ClassVar[str] = "counter"


@dataclass(slots=True, eq=False)
class Reported(Gauge):
    """A gauge whose value is reported now and then by the part that measures it."""

    _values: dict[Labels, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Expose the reported values."""
        self.bind(lambda: self._values)

    def report(self, value: float, *labels: str) -> None:
        """Set the value."""
        self._values[labels] = value


class Series:
    """The observations with one set of labels; frequent observers keep a reference to it."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def counts(self) -> tuple[int, ...]:
        """Observations per bucket: above the previous bound and up to this one; last, above all."""
        return tuple(self._counts)

    @property
    def sum(self) -> float:
        """Sum of all observations."""
        return self._sum

    def observe(self, value: float) -> None:
        """Add one observation, in the unit at the end of the name."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_many(self, values: Sequence[float]) -> None:
        """Add observations that were made together, such as the waits of a batch.

        With more values than bounds, this takes one search per bound, not one per value. Waits in a
        queue are nearly sorted, which sorting makes use of.
        """
        if len(values) <= len(self._bounds):
            for value in values:
                self.observe(value)
            return
        ordered, below = sorted(values), 0
        for bucket, bound in enumerate(self._bounds):
            at_or_below = bisect_right(ordered, bound)
            self._counts[bucket] += at_or_below - below
            below = at_or_below
        self._counts[-1] += len(ordered) - below
        self._sum += sum(ordered)


@dataclass(slots=True, eq=False)
class Histogram(Instrument):
    """Cumulative counts of observations up to each bound; the last bucket has no bound.

    Without labels it starts at 0 immediately.
    """

    kind: ClassVar[str] = "histogram"
    suffixes: ClassVar[tuple[str, ...]] = ("_bucket", "_count", "_sum")
    bounds: tuple[float, ...] = ()
    _series: dict[Labels, Series] = field(default_factory=dict)

    def labelled(self, *labels: str) -> Series:
        """The series with these labels, which is exposed from now on."""
        series = self._series.get(labels)
        if series is None:
            key = self._key(labels, self._series)
            series = self._series.setdefault(key, Series(self.bounds))
        return series

    def observe(self, value: float, *labels: str) -> None:
        """Add one observation, in the unit at the end of the name."""
        self.labelled(*labels).observe(value)

    def observe_many(self, values: Sequence[float], *labels: str) -> None:
        """Add observations that were made together; see `Series.observe_many`."""
        self.labelled(*labels).observe_many(values)

    def samples(self) -> Iterator[Sample]:
        """Cumulative buckets, count and sum of each series."""
        edges = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        if not self.labels:
            self.labelled()
        for labels, series in self._series.items():
            for edge, count in zip(edges, accumulate(series.counts), strict=True):
                yield self._sample(labels, count, "_bucket", le=edge)
            yield self._sample(labels, sum(series.counts), "_count")
            yield self._sample(labels, series.sum, "_sum")


@dataclass(slots=True, eq=False)
class Summary(Instrument):
    """Quantiles of the newest observations, which another part keeps."""

    kind: ClassVar[str] = "summary"
    suffixes: ClassVar[tuple[str, ...]] = ("", "_count")
    quantiles: tuple[float, ...] = _QUANTILES
    _read: Observed | None = None

    def bind(self, read: Observed) -> None:
        """Read ``read`` at each scrape: the count, and the newest values. It must not raise."""
        self._read = read

    def samples(self) -> Iterator[Sample]:
        """Quantiles and count."""
        if self._read is None:
            return
        count, newest = self._read()
        ordered = sorted(newest)
        for quantile in self.quantiles if ordered else ():
            rank = min(int(quantile * len(ordered)), len(ordered) - 1)
            yield self._sample((), ordered[rank], quantile=str(quantile))
        yield self._sample((), count, "_count")
