"""Values of a report as people read them: numbers, times, scales, figures."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from matplotlib.ticker import MaxNLocator

# What a report is before it is a page: sections with charts and tables, all plain values.
#
# The page and the JSON beside it are made of the same values; neither computes any.


Value = str | int | float | bool | None


class ChartSpan(NamedTuple):
    """From a moment to another, ms since 1970."""

    from_ms: int
    to_ms: int


class Missing(NamedTuple):
    """What is not there, and what makes it."""

    what: str
    command: str


class ChartAxis(NamedTuple):
    """What is shown along it.

    Attributes:
        says: in words.
        unit: ``UTC`` is time, of values in ms since 1970.
        low, high: its ends.
    """

    says: str
    unit: str
    low: float
    high: float


class ChartLevel(NamedTuple):
    """A value that is marked across a chart."""

    label: str
    value: float


class ChartSeries(NamedTuple):
    """One of several in a chart.

    Attributes:
        values: one for each place along the x axis; None: nothing is known.
    """

    label: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Values over time, a line each.

    Attributes:
        xs: of the values, ascending.
        width_ms: of time that a value is of, from its x on.
        within: the lower and the upper end of an area behind the lines; empty: there is none.
    """

    title: str
    x: ChartAxis
    y: ChartAxis
    xs: tuple[int, ...]
    width_ms: int
    series: tuple[ChartSeries, ...]
    within: tuple[ChartSeries, ...] = ()
    levels: tuple[ChartLevel, ...] = ()
    kind: str = "lines"


@dataclass(frozen=True, slots=True)
class Stacks:
    """Values over time, one upon the other; see `Lines`. No value is below 0."""

    title: str
    x: ChartAxis
    y: ChartAxis
    xs: tuple[int, ...]
    width_ms: int
    series: tuple[ChartSeries, ...]
    kind: str = "stacks"


@dataclass(frozen=True, slots=True)
class Heat:
    """A row of shades for each subject.

    Attributes:
        rows: as many values each as there are ``columns``.
    """

    title: str
    says: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[ChartSeries, ...]
    kind: str = "heat"


@dataclass(frozen=True, slots=True)
class ChartBars:
    """A bar for each label, from the low end of the axis on."""

    title: str
    x: ChartAxis
    bars: tuple[ChartLevel, ...]
    levels: tuple[ChartLevel, ...] = ()
    kind: str = "bars"


class ChartPoint(NamedTuple):
    """One of `Points`."""

    label: str
    x: float
    y: float


class ChartGroup(NamedTuple):
    """Points of one kind."""

    label: str
    points: tuple[ChartPoint, ...]


@dataclass(frozen=True, slots=True)
class Points:
    """Two values of each subject."""

    title: str
    x: ChartAxis
    y: ChartAxis
    groups: tuple[ChartGroup, ...]
    kind: str = "points"


Chart = Lines | Stacks | Heat | ChartBars | Points


class TableColumn(NamedTuple):
    """Of a table; unit ``UTC`` is time, of values in ms since 1970."""

    name: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of as many values as there are columns.

    Attributes:
        left_out: rows that there are besides these.
    """

    title: str
    columns: tuple[TableColumn, ...]
    rows: Sequence[tuple[Value, ...]]
    left_out: int = 0


class Fact(NamedTuple):
    """A number that stands for itself."""

    says: str
    value: Value
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One subject.

    Attributes:
        name: short, for a link.
        says: what a reader should know before the charts, in sentences.
        facts: the first that a reader looks for.
        source: the table that it is made of; empty: none.
        rows: of it, that this stands on.
        span: of them; None: they have no time, or there are none.
        missing: why there is nothing, or not all.
    """

    name: str
    title: str
    says: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    source: str = ""
    rows: int = 0
    span: ChartSpan | None = None
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All of it; ``span`` is that of the history."""

    cluster: str
    span: ChartSpan | None
    sections: tuple[Section, ...] = field(default=())

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        row = _plain(asdict(self))
        assert isinstance(row, dict)
        return row


def _plain(value: Any) -> Any:
    """Named tuples by name as well: a list of four numbers says nothing."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    return [_plain(each) for each in value] if isinstance(value, (tuple, list)) else value


# Ends of axes, and how far apart the values along them may be.


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
# Of time: what a value or a mark may be apart.
WIDTHS_MS: Final = (
    *(1_000, 5_000, 15_000),
    *(minutes * _MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR_MS for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY_MS for days in (1, 2, 7, 14, 28, 91, 364)),
)
_MOST_MARKS: Final = 5


def width_of(span_ms: int, most: int) -> int:
    """The shortest of `WIDTHS_MS` of which at most ``most`` make the span."""
    return next((each for each in WIDTHS_MS if span_ms / each <= most), WIDTHS_MS[-1])


def axis(
    says: str, unit: str, values: Iterable[float | None], low: float | None = None
) -> ChartAxis:
    """From the lowest value, or ``low``, to the highest one, with round ends."""
    known = [each for each in values if each is not None and math.isfinite(each)]
    start = min(known, default=0.0) if low is None else low
    end = max(known, default=start)
    # A flat line is in the middle of something.
    end = end if end > start else start + max(abs(start), 1.0)
    # Round ends are farther apart, which may want larger steps; the second time they fit.
    for _ in range(2):
        first, *_, last = locator().tick_values(start if low is None else low, end)
        start, end = first, last
    return ChartAxis(
        says, unit, round(float(first), 12) if low is None else low, round(float(last), 12)
    )


def locator() -> MaxNLocator:
    """Where an axis has marks."""
    return MaxNLocator(_MOST_MARKS, steps=[1, 2, 2.5, 5, 10])


# Numbers, times and names as a reader sees them.


TIME: Final = "UTC"
NOTHING: Final = "–"  # noqa: RUF001  what stands in a table for nothing
_SIGNS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LARGE: Final = 10_000
_DIGITS: Final = 4
# What sums of doubles leave of what should be 0.
_NOTHING_AT_ALL: Final = 1e-9


def figure(value: Value, unit: str = "") -> str:
    """A value for people: four digits, thousands as k, M, G; not escaped."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int() | float() if unit == TIME:
            return moment(value)
        case int() if abs(value) < _LARGE:
            return str(value)
        case _:
            return _number(value)


def moment(at_ms: float) -> str:
    """To the minute, or to the second where that says more."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S" if at.second else "%Y-%m-%d %H:%M")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return NOTHING
    if abs(value) >= _LARGE:
        size, sign = next((each for each in _SIGNS if abs(value) >= each[0]), (1.0, ""))
        return f"{value / size:.{_DIGITS}g} {sign}"
    if abs(value) < _NOTHING_AT_ALL:
        return "0"
    text = f"{value:.{_DIGITS}g}"
    return f"{value:.{_DIGITS - 1}f}" if "e" in text and abs(value) < 1 else text
