"""What a report is before it is a page: sections with charts and tables, all plain values.

The page and the JSON beside it are made of the same values; neither computes any.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

Value = str | int | float | bool | None


class Span(NamedTuple):
    """From a moment to another, ms since 1970."""

    from_ms: int
    to_ms: int


class Missing(NamedTuple):
    """What is not there, and what makes it."""

    what: str
    command: str


class Axis(NamedTuple):
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


class Level(NamedTuple):
    """A value that is marked across a chart."""

    label: str
    value: float


class Series(NamedTuple):
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
    x: Axis
    y: Axis
    xs: tuple[int, ...]
    width_ms: int
    series: tuple[Series, ...]
    within: tuple[Series, ...] = ()
    levels: tuple[Level, ...] = ()
    kind: str = "lines"


@dataclass(frozen=True, slots=True)
class Stacks:
    """Values over time, one upon the other; see `Lines`. No value is below 0."""

    title: str
    x: Axis
    y: Axis
    xs: tuple[int, ...]
    width_ms: int
    series: tuple[Series, ...]
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
    rows: tuple[Series, ...]
    kind: str = "heat"


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each label, from the low end of the axis on."""

    title: str
    x: Axis
    bars: tuple[Level, ...]
    levels: tuple[Level, ...] = ()
    kind: str = "bars"


class Point(NamedTuple):
    """One of `Points`."""

    label: str
    x: float
    y: float


class Group(NamedTuple):
    """Points of one kind."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Points:
    """Two values of each subject."""

    title: str
    x: Axis
    y: Axis
    groups: tuple[Group, ...]
    kind: str = "points"


Chart = Lines | Stacks | Heat | Bars | Points


class Column(NamedTuple):
    """Of a table; unit ``UTC`` is time, of values in ms since 1970."""

    name: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of as many values as there are columns.

    Attributes:
        left_out: rows that there are besides these.
    """

    title: str
    columns: tuple[Column, ...]
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
    tables: tuple[Table, ...] = ()
    source: str = ""
    rows: int = 0
    span: Span | None = None
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All of it; ``span`` is that of the history."""

    cluster: str
    span: Span | None
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
