"""Imbalance and decisions of the last hours on one axis."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from broker_ctl.console.pages.frame import DEFAULT_BAND, LoadBand, Row

# The imbalance of the past as a line, over the decisions of the same time.


WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
# The line has some room above it.
_HEADROOM: Final = 1.05
_LEAST_TOP: Final = 1.2
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """A span of time on the width of a picture."""

    begin_ms: int
    end_ms: int

    def x(self, at_ms: int) -> float:
        """The place of a time, in thousandths."""
        span = max(1, self.end_ms - self.begin_ms)
        return round(max(0.0, min(1.0, (at_ms - self.begin_ms) / span)) * WIDTH, 1)

    @property
    def ticks(self) -> tuple[int, ...]:
        """Times at even distances, the ends among them."""
        step = (self.end_ms - self.begin_ms) / (_TICKS - 1)
        return tuple(int(self.begin_ms + step * number) for number in range(_TICKS))


@dataclass(frozen=True, slots=True)
class LoadTrace:
    """The line, from 1.0 at the bottom to ``top``; ``low`` and ``high`` are the band's places.

    Attributes:
        line: points of a polyline, as SVG writes them; empty: fewer than two are known.
        first, worst, last: imbalance at the begin, the highest one, and the newest one.
    """

    axis: Axis
    line: str
    points: int
    top: float
    low: float
    high: float
    first: float
    worst: float
    last: float


def trace_of(rows: Sequence[Row], band: LoadBand, axis: Axis | None = None) -> LoadTrace | None:
    """The trace of the leader's points, the oldest first; None: there are not two in the span."""
    known: list[tuple[int, float]] = [
        (row["at_ms"], row["usage_imbalance"])
        for row in rows
        if row["usage_imbalance"] is not None and (axis is None or row["at_ms"] >= axis.begin_ms)
    ]
    if len(known) < 2:
        return None
    axis = Axis(known[0][0], known[-1][0]) if axis is None else axis
    values = [value for _, value in known]
    top = max(_LEAST_TOP, max(values) * _HEADROOM)

    def y(value: float) -> float:
        return round(HEIGHT - (value - 1.0) / (top - 1.0) * HEIGHT, 1)

    line = " ".join(f"{axis.x(at_ms)},{y(value)}" for at_ms, value in known)
    return LoadTrace(
        axis, line, len(known), top, y(band.low), y(band.high), values[0], max(values), values[-1]
    )


# Decisions for a reader: what alike ones have in common is said once.


# Of more alike decisions than these, the number is shown first.
_FEW: Final = 2


@dataclass(frozen=True, slots=True)
class Group:
    """Decisions of one cycle with the same kind, result and reason; the newest first."""

    rows: Sequence[Row]

    @property
    def first(self) -> Row:
        """One of them: they are alike."""
        return self.rows[0]

    @property
    def is_folded(self) -> bool:
        """Whether their number is shown in their place."""
        return len(self.rows) > _FEW


def grouped(rows: Iterable[Row]) -> tuple[Group, ...]:
    """Neighbours that are alike are together; the order stays."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("epoch", "cycle", "kind", "result", "reason"))
        groups.setdefault(key, []).append(row)
    return tuple(Group(tuple(each)) for each in groups.values())


def usual_s(rows: Iterable[Row]) -> float | None:
    """How long a move usually takes, by those that were done; None: none was."""
    took = [row["took_s"] for row in rows if row["kind"] == "transfer" and row["result"] == "done"]
    return median(took) if took else None


# Imbalance and decisions of the last hours on one axis.


TIMES: Final = ("span", "since", "until")
_KINDS: Final = ("transfer", "split", "merge", "assign", "skip")
# Seconds, by the word in the address.
SPANS: Final[Mapping[str, int]] = MappingProxyType(
    {"15min": 900, "1h": 3600, "6h": 21_600, "24h": 86_400}
)


@dataclass(frozen=True, slots=True)
class Mark:
    """One decision on the axis: its place in thousandths, and the line of its kind."""

    x: float
    line: int
    row: Row


@dataclass(frozen=True, slots=True)
class HistoryRows:
    """The page; ``kinds`` are the lines of the picture from the top."""

    rows: Sequence[Row]
    groups: tuple[Group, ...]
    marks: tuple[Mark, ...]
    kinds: tuple[str, ...]
    counts: Mapping[str, int]
    axis: Axis
    trace: LoadTrace | None
    wanted: Mapping[str, str]
    permalink: str
    brokers: tuple[str, ...]


def history_page(
    rows: Sequence[Row],
    wanted: Mapping[str, str],
    brokers: Sequence[Row],
    points: Sequence[Row] = (),
    *,
    band: LoadBand = DEFAULT_BAND,
    now_ms: int = 0,
) -> HistoryRows:
    """The page of decisions, the newest first, and of the imbalance, the oldest first."""
    axis = _axis(rows, wanted, points, now_ms)
    kinds = tuple(kind for kind in _KINDS if any(row["kind"] == kind for row in rows))
    marks = tuple(
        Mark(axis.x(row["at_ms"]), kinds.index(row["kind"]), row)
        for row in rows
        if row["kind"] in kinds
    )
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in kinds}
    link = f"/ui/history?{urlencode(wanted)}" if wanted else "/ui/history"
    names = tuple(sorted(row["broker"] for row in brokers))
    trace = trace_of(points, band, axis)
    return HistoryRows(rows, grouped(rows), marks, kinds, counts, axis, trace, wanted, link, names)


def _axis(
    rows: Sequence[Row], wanted: Mapping[str, str], points: Sequence[Row], now_ms: int
) -> Axis:
    times = [row["at_ms"] for row in (*rows, *points)]
    end = max(now_ms, *times) if times else now_ms
    _, moments = times_wanted(wanted, end)
    end = moments.get("until_ms", end)
    return Axis(min(moments.get("since_ms", min(times, default=end)), end), end)


def times_wanted(texts: Mapping[str, str], now_ms: int) -> tuple[dict[str, str], dict[str, int]]:
    """What a reader asked for, as texts that are times, and as ``since_ms`` and ``until_ms``.

    A point in time beats a span.
    """
    asked = {"since_ms": texts.get("since", ""), "until_ms": texts.get("until", "")}
    moments = {name: at for name, text in asked.items() if (at := _utc_ms(text)) is not None}
    if moments:
        return {name[:-3]: asked[name] for name in moments}, moments
    span = texts.get("span", "")
    if span not in SPANS:
        return {}, {}
    return {"span": span}, {"since_ms": now_ms - SPANS[span] * 1000}


def _utc_ms(text: str) -> int | None:
    """Of ``2030-01-31T03:00``, as the field of the form has it."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at_ms = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    return at_ms if at_ms > 0 else None
