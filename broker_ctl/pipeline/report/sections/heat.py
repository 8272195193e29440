"""Which bundles carry most, and at which hours of a usual day."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.strategies.balance.profile import HOURS
from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import (
    ChartSeries,
    Heat,
    Missing,
    ReportTable,
    Section,
    TableColumn,
    Value,
)
from broker_ctl.pipeline.transforms.heat import HOT_BUNDLES, HOT_TOPICS
from broker_ctl.pipeline.transforms.hours import HOUR_PROFILES

_MOST: Final = 20
_NAME: Final = "heat"
_TITLE: Final = "Hottest bundles by hour"
_SAYS: Final = (
    "The bundles that carried most in all hours, on a usual day: the median of the days of "
    "the profile. Hours are UTC; where nothing is drawn, there was no such hour."
)
_HOT: Final = (
    TableColumn("rank"),
    TableColumn("bundle"),
    TableColumn("mean", "bytes/s"),
    TableColumn("of all", "%"),
    TableColumn("busiest hour", "bytes/s"),
    TableColumn("fullest hour", "% of a broker"),
    TableColumn("topics"),
)
_TOPICS: Final = (
    TableColumn("rank"),
    TableColumn("bundle"),
    TableColumn("topics"),
    TableColumn("a topic of it", "bytes/s"),
    TableColumn("could not be cut", "cycles"),
)


def section(source: ReportSource) -> Section:
    """A shade for each bundle and hour."""
    hot, profiles = source.result(HOT_BUNDLES), source.result(HOUR_PROFILES)
    if isinstance(hot, Missing) or isinstance(profiles, Missing):
        lacking = tuple(each for each in (hot, profiles) if isinstance(each, Missing))
        return Section(_NAME, _TITLE, missing=lacking)
    share, peak = F.col("share_ratio") * 100, F.col("peak_usage_ratio") * 100
    ranked = hot.where(F.col("rank") <= _MOST).orderBy("rank")
    rows = ranked.select(
        "rank", "bundle", "bytes_s", share, "peak_bytes_s", peak, "topics"
    ).collect()
    if not rows:
        return Section(_NAME, _TITLE, ("No bundle was ever reported.",))
    names = [row["bundle"] for row in rows]
    by_hour = profiles.where(F.col("bundle").isin(names)).collect()
    known = {(row["bundle"], row["hour"]): row["bytes_s"] for row in by_hour}
    topics, missing = _topics(source.result(HOT_TOPICS))
    return Section(
        _NAME,
        _TITLE,
        (_SAYS,),
        charts=(
            Heat(
                f"The {len(names)} hottest bundles by hour of the day",
                "hour of a usual day (UTC)",
                "bytes/s",
                tuple(f"{hour:02}:00" for hour in range(HOURS)),
                tuple(
                    ChartSeries(name, tuple(known.get((name, hour)) for hour in range(HOURS)))
                    for name in names
                ),
            ),
        ),
        tables=(ReportTable("Bundles that carry most", _HOT, tuple(map(tuple, rows))), *topics),
        source=HOUR_PROFILES.name,
        rows=len(by_hour),
        missing=missing,
    )


def _topics(hot: DataFrame | Missing) -> tuple[tuple[ReportTable, ...], tuple[Missing, ...]]:
    if isinstance(hot, Missing):
        return (), (hot,)
    names = ("rank", "bundle", "topics", "topic_bytes_s", "refusals")
    found = hot.where(F.col("rank") <= _MOST).orderBy("rank").select(*names).collect()
    rows: tuple[tuple[Value, ...], ...] = tuple(map(tuple, found))
    return (ReportTable("Bundles whose topics carry most each", _TOPICS, rows),) if rows else (), ()
