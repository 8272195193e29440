"""Sessions, failovers of the leader, and times of bundles without an owner."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import (
    TIME,
    ChartSpan,
    Fact,
    Missing,
    ReportTable,
    Section,
    TableColumn,
)
from broker_ctl.pipeline.transforms.sessions import HANDOVERS, LEADINGS, SESSION_COUNTS

_DAY_MS: Final = 86_400_000
_MOST_ROWS: Final = 30
_SESSIONS: Final = ("sessions", "Sessions and failovers")
_HANDOVERS: Final = ("handovers", "How long bundles were nobody's")


def sessions(source: ReportSource) -> Section:
    """Session events of the brokers, and leadership terms."""
    counts, leadings = source.result(SESSION_COUNTS), source.result(LEADINGS)
    lacking = tuple(each for each in (counts, leadings) if isinstance(each, Missing))
    found = [] if isinstance(counts, Missing) else _events(counts)
    facts, led = ((), ()) if isinstance(leadings, Missing) else _terms_table(leadings)
    events = ReportTable(
        "Events of sessions",
        (TableColumn("event"), TableColumn("times"), TableColumn("brokers")),
        tuple(row[:3] for row in found[:_MOST_ROWS]),
        max(0, len(found) - _MOST_ROWS),
    )
    span = None
    if found:
        span = ChartSpan(min(row[3] for row in found), max(row[4] for row in found) + _DAY_MS - 1)
    return Section(
        *_SESSIONS,
        () if found else ("No event of a session is in the history.",),
        facts,
        tables=(*((events,) if found else ()), *led),
        source=SESSION_COUNTS.name if found else "",
        rows=sum(row[5] for row in found),
        span=span,
        missing=lacking,
    )


def _events(counts: DataFrame) -> list[tuple[Any, ...]]:
    """Event, times, brokers, first and last day, rows; the most frequent first."""
    by_event = counts.groupBy("event").agg(
        F.sum("events"), F.countDistinct("broker"), F.min("day_ms"), F.max("day_ms"), F.count("*")
    )
    return sorted(map(tuple, by_event.collect()), key=lambda row: (-row[1], row[0]))


def _terms_table(leadings: DataFrame) -> tuple[tuple[Fact, ...], tuple[ReportTable, ...]]:
    count, most = leadings.agg(F.count("*"), F.max("vacant_s")).head() or (0, None)
    newest = leadings.orderBy(F.desc("began_ms"), "seat").limit(_MOST_ROWS)
    names = ("seat", "epoch", "broker", "began_ms", "ended_ms", "vacant_s", "detail")
    some = tuple(map(tuple, newest.select(*names).collect()))
    facts = [Fact("leadership terms", count)]
    facts += [Fact("longest time without a leader", most, "s")] if most is not None else []
    columns = (
        *(
            TableColumn("seat"),
            TableColumn("epoch"),
            TableColumn("broker"),
            TableColumn("began", TIME),
        ),
        *(TableColumn("ended", TIME), TableColumn("nobody led before", "s"), TableColumn("why")),
    )
    table = ReportTable("Who led, the newest first", columns, some, count - len(some))
    return tuple(facts), (table,) if some else ()


def handovers(source: ReportSource) -> Section:
    """Handovers by cause of the release and of the acquisition."""
    frame = source.result(HANDOVERS)
    if isinstance(frame, Missing):
        return Section(*_HANDOVERS, missing=(frame,))
    middle, high = (F.percentile("unserved_s", each) for each in (0.5, 0.99))
    by_cause = frame.groupBy("gone_cause", "come_cause").agg(
        F.count("*"),
        middle,
        high,
        F.max("unserved_s"),
        F.min("gone_ms"),
        F.max("gone_ms"),
    )
    found = sorted(map(tuple, by_cause.collect()), key=lambda row: (-row[2], row[:2]))
    if not found:
        return Section(*_HANDOVERS, ("No bundle came to a broker after another gave it up.",))
    return Section(
        *_HANDOVERS,
        ("From when a broker gave a bundle up to when one had it, each on its own clock.",),
        tables=(
            ReportTable(
                "Handovers by cause",
                (
                    *(TableColumn("given up by"), TableColumn("came by"), TableColumn("times")),
                    *(
                        TableColumn("median", "s"),
                        TableColumn("p99", "s"),
                        TableColumn("longest", "s"),
                    ),
                ),
                tuple(row[:6] for row in found[:_MOST_ROWS]),
                max(0, len(found) - _MOST_ROWS),
            ),
        ),
        source=HANDOVERS.name,
        rows=sum(row[2] for row in found),
        span=ChartSpan(min(row[6] for row in found), max(row[7] for row in found)),
    )
