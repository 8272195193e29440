"""Imbalance and decisions of the last hours on one axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from broker_ctl.console.pages.bars import DEFAULT_BAND, Band
from broker_ctl.console.pages.decisions import Group, grouped
from broker_ctl.console.pages.frame import Row
from broker_ctl.console.pages.trace import Axis, Trace, trace_of

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
class History:
    """The page; ``kinds`` are the lines of the picture from the top."""

    rows: Sequence[Row]
    groups: tuple[Group, ...]
    marks: tuple[Mark, ...]
    kinds: tuple[str, ...]
    counts: Mapping[str, int]
    axis: Axis
    trace: Trace | None
    wanted: Mapping[str, str]
    permalink: str
    brokers: tuple[str, ...]


def history_page(
    rows: Sequence[Row],
    wanted: Mapping[str, str],
    brokers: Sequence[Row],
    points: Sequence[Row] = (),
    *,
    band: Band = DEFAULT_BAND,
    now_ms: int = 0,
) -> History:
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
    return History(rows, grouped(rows), marks, kinds, counts, axis, trace, wanted, link, names)


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
