"""The data behind the report, and lines that could not be read."""

from typing import Final

from pyspark.sql import functions as F

from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import Fact, Missing, ReportTable, Section, TableColumn
from broker_ctl.pipeline.tables import BATCHES, QUARANTINE

_MOST_ROWS: Final = 20
_MOST_TEXT: Final = 200
_NAME: Final = "quarantine"
_TITLE: Final = "What was taken in, and what could not be read"
_COUNTS: Final = (
    ("segments", "segments"),
    ("lines", "lines"),
    ("lines taken in", "taken_lines"),
    ("lines in quarantine", "faulty_lines"),
    ("segments that could not be read", "unreadable"),
    ("lines that were there before", "repeated_lines"),
    ("rows", "rows"),
)


def section(source: ReportSource) -> Section:
    """Of all clusters: a line that cannot be read does not say whose it is."""
    quarantine = source.history(QUARANTINE)
    if isinstance(quarantine, Missing):
        return Section(_NAME, _TITLE, missing=(quarantine,))
    batches = source.batches()
    counts = tuple(sum(getattr(each, name) for each in batches) for _, name in _COUNTS)
    text = F.substring("text", 1, _MOST_TEXT)
    faulty = quarantine.orderBy("file", "line").select("file", "line", "fault", text)
    rows = tuple(map(tuple, faulty.limit(_MOST_ROWS).collect()))
    columns = (
        TableColumn("segment"),
        TableColumn("line"),
        TableColumn("fault"),
        TableColumn("text"),
    )
    total = counts[3] + counts[4]
    table = ReportTable("The first of them", columns, rows, max(0, total - len(rows)))
    return Section(
        _NAME,
        _TITLE,
        ("Of the whole directory of tables, whichever cluster it is of.",),
        tuple(Fact(each[0], count) for each, count in zip(_COUNTS, counts, strict=True)),
        tables=(table,) if rows else (),
        source=BATCHES.name,
        rows=len(batches),
    )
