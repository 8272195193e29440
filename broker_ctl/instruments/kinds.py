"""The kinds of instruments: plain values that any floor may be given.

Nothing here knows who reads them. One event loop writes, so there are no locks; an observation
costs a look-up and an addition.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """Read when somebody asks. ``bind`` says how; before that there is no series."""

    kind: ClassVar[str] = "gauge"
    _reads: list[Reading] = field(default_factory=list)

    def bind(self, read: Reading) -> None:
        """Ask ``read`` too from now on: a number, or one per label values. It must not raise.

        Where several are asked, no two of them may say something of the same label values.
        """
        self._reads.append(read)

    def samples(self) -> Iterator[Sample]:
        """What was read just now."""
        for read in self._reads:
            value = read()
            values = value if isinstance(value, Mapping) else {(): value}
            yield from (self._sample(labels, value) for labels, value in values.items())


@dataclass(slots=True, eq=False)
class Total(Gauge):
    """A count that somebody else keeps anyway, such as the hits of a cache."""

    kind: ClassVar[str] = "counter"


@dataclass(slots=True, eq=False)
class Reported(Gauge):
    """A gauge of what is found out now and then, by whoever finds it out."""

    _values: dict[Labels, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """There is a series for what was told."""
        self.bind(lambda: self._values)

    def tell(self, value: float, *labels: str) -> None:
        """From now on it is ``value``."""
        self._values[labels] = value


class Series:
    """The observations with one set of labels: kept by whoever observes often."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def counts(self) -> tuple[int, ...]:
        """Observations at or below each bound and above the one before; last, those above all."""
        return tuple(self._counts)

    @property
    def sum(self) -> float:
        """Of all observations."""
        return self._sum

    def observe(self, value: float) -> None:
        """Take one observation, in the unit that the name ends in."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_many(self, values: Sequence[float]) -> None:
        """Take observations that were made together, such as the waits of a batch.

        One search per bound in place of one per value, once there are more values than bounds.
        What waited in a queue comes nearly in order, and that sorts in one pass.
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
    """How many observations lie at or below each bound; the last bucket has none.

    Without labels it is there from the start, at 0.
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
        """Take one observation, in the unit that the name ends in."""
        self.labelled(*labels).observe(value)

    def observe_many(self, values: Sequence[float], *labels: str) -> None:
        """Take observations that were made together; see `Series.observe_many`."""
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
    """Quantiles of the newest observations, which somebody else keeps."""

    kind: ClassVar[str] = "summary"
    suffixes: ClassVar[tuple[str, ...]] = ("", "_count")
    quantiles: tuple[float, ...] = _QUANTILES
    _read: Observed | None = None

    def bind(self, read: Observed) -> None:
        """Ask ``read`` from now on: how many there were, and the newest. It must not raise."""
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
