"""The decisions of the last hours on one axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from broker_ctl.console.pages.frame import Row

_WIDTH: Final = 1000.0
_KINDS: Final = ("transfer", "split", "merge", "assign", "skip")


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
    marks: tuple[Mark, ...]
    kinds: tuple[str, ...]
    counts: Mapping[str, int]
    begin_ms: int
    end_ms: int
    wanted: Mapping[str, str]
    permalink: str
    brokers: tuple[str, ...]


def history_page(rows: Sequence[Row], wanted: Mapping[str, str], brokers: Sequence[Row]) -> History:
    """The page of decisions, the newest first."""
    begin = min((row["at_ms"] for row in rows), default=0)
    end = max((row["at_ms"] for row in rows), default=0)
    span = max(1, end - begin)
    kinds = tuple(kind for kind in _KINDS if any(row["kind"] == kind for row in rows))
    marks = tuple(
        Mark(round((row["at_ms"] - begin) / span * _WIDTH, 1), kinds.index(row["kind"]), row)
        for row in rows
        if row["kind"] in kinds
    )
    counts = {kind: sum(row["kind"] == kind for row in rows) for kind in kinds}
    link = f"/ui/history?{urlencode(wanted)}" if wanted else "/ui/history"
    names = tuple(sorted(row["broker"] for row in brokers))
    return History(rows, marks, kinds, counts, begin, end, wanted, link, names)
