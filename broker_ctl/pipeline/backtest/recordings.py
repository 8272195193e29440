"""Reads recorded clusters from the tables of a history."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import InvalidName, PipelineError
from broker_ctl.pipeline.backtest.recorded import (
    BrokerSeries,
    BundleSeries,
    RecordedHistory,
    RecordedSize,
    cell_min_of,
)
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.tables import HISTORY
from broker_ctl.pipeline.warehouse import open_filled, open_warehouse
from broker_ctl.simulation.model.scenario import MOST_CELLS, MOST_MINUTES

_MINUTE_MS: Final = 60_000
_HOUR_MIN: Final = 60
_RATES: Final = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")


class RecordedCycle(NamedTuple):
    """A cycle of a leader."""

    epoch: int
    cycle: int
    at_ms: int


class Minute(NamedTuple):
    """A minute with cycles, since 1970."""

    minute: int
    oldest: RecordedCycle
    newest: RecordedCycle


class Recordings:
    """The history in the tables of a warehouse.

    Args:
        spark: the session.
        root: of the tables that `ingest` writes.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root

    def clusters(self) -> list[str]:
        """Names of all clusters of which a leader was recorded.

        Raises:
            PipelineError: no history was ingested, or it cannot be read.
        """
        with translate_spark_errors(self._root):
            open_filled(self._spark, self._root)
            rows = self._table("broker_loads").select("cluster").distinct().collect()
        if not rows:
            raise PipelineError(f"{self._root}: no leader wrote anything of any cluster")
        return sorted(row["cluster"] for row in rows)

    def history(self, cluster: str, hours: int | None) -> RecordedHistory:
        """The recorded history of one cluster.

        Args:
            cluster: its name.
            hours: only the newest hours; None: all.

        Raises:
            PipelineError: there is too much of it to be replayed at once, or it cannot be read.
        """
        with translate_spark_errors(self._root):
            cycles = self._cycles(cluster, hours)
            span = _Span.of(self._spark, cluster, cycles)
            rows = span.rows(self._table("bundle_loads"))
            minutes, bundles = span.minutes[-1] + 1, rows.select("bundle").distinct().count()
            cell_min = cell_min_of(minutes, bundles)
            if not cell_min:
                raise PipelineError(
                    f"cluster {cluster}: {minutes} minutes of {bundles} bundles are more than"
                    f" {MOST_CELLS} hours of bundles: --hours takes the newest"
                )
            return RecordedHistory(
                cluster=cluster,
                seen=np.array(span.minutes, dtype=np.int64),
                rings=dict(self._rings(span)),
                bundles=[*self._bundles(span, rows, cell_min)],
                brokers=[*self._brokers(span)],
                cell_min=cell_min,
            )

    def _table(self, name: str) -> DataFrame:
        return open_warehouse(self._spark, self._root).read(HISTORY[name])

    def _cycles(self, cluster: str, hours: int | None) -> list[RecordedCycle]:
        of_cluster = self._table("broker_loads").where(F.col("cluster") == cluster)
        cycles = of_cluster.groupBy("epoch", "cycle").agg(F.min("at_ms").alias("at_ms"))
        one = F.struct("epoch", "cycle", "at_ms")
        minute = F.floor(F.col("at_ms") / _MINUTE_MS).alias("minute")
        by_minute = cycles.groupBy(minute).agg(
            F.min(one).alias("oldest"), F.max(one).alias("newest")
        )
        rows = sorted(by_minute.collect(), key=lambda row: row["minute"])
        found = [
            Minute(row["minute"], RecordedCycle(*row["oldest"]), RecordedCycle(*row["newest"]))
            for row in rows
        ]
        return choose_minutes(cluster, found, hours)

    def _rings(self, span: "_Span") -> Iterator[tuple[Namespace, tuple[int, ...]]]:
        """Rings of the first cycle, as far as its leader recorded them."""
        first = span.cycles[0]
        before = self._table("bundle_boundaries").where(
            (F.col("cluster") == span.cluster)
            & (F.col("epoch") == first.epoch)
            & (F.col("cycle") <= first.cycle)
        )
        newest = before.groupBy("namespace").agg(F.max_by("boundaries", "cycle").alias("points"))
        for row in newest.collect():
            # A namespace that was deleted has no boundaries.
            if row["points"]:
                yield _parse(Namespace, row["namespace"]), tuple(row["points"])

    def _bundles(self, span: "_Span", rows: DataFrame, cell_min: int) -> Iterator[BundleSeries]:
        cell = F.floor(F.col("minute") / cell_min).cast("int")
        seen = span.frame.groupBy(cell.alias("cell")).agg(F.count("*").alias("cycles"))
        # What is there for a part of a cell has that part of its load in it.
        part = F.count("*") / F.first("cycles")
        nan = F.lit(float("nan"))
        by_cell = (
            rows.withColumn("cell", cell)
            .join(F.broadcast(seen), "cell")
            .groupBy("bundle", "cell")
            .agg(
                *(F.coalesce(F.avg(name) * part, nan).cast("float").alias(name) for name in _RATES),
                F.min_by("owner", F.when(F.col("owner").isNotNull(), F.col("minute"))).alias(
                    "owner"
                ),
                F.max("topics").alias("topics"),
            )
        )
        lists = _group_rows(by_cell, "bundle", "cell", *map(F.col, (*_RATES, "owner", "topics")))
        owner = F.get(F.filter("owner", lambda each: each.isNotNull()), 0)
        frame: Any = lists.select(
            *("bundle", "cell", *_RATES),
            owner.alias("owner"),
            F.coalesce(F.array_max("topics"), F.lit(0)).alias("topics"),
        )
        for row in frame.toPandas().itertuples(index=False):
            yield BundleSeries(
                bundle=_parse(Bundle, row.bundle),
                cells=np.asarray(row.cell, dtype=np.int64),
                rates=np.array([getattr(row, name) for name in _RATES], dtype=np.float32),
                owner=row.owner,
                topics=int(row.topics),
            )

    def _brokers(self, span: "_Span") -> Iterator[BrokerSeries]:
        sizes = self._sizes(span)
        frame: Any = _group_rows(
            span.rows(self._table("broker_loads")),
            *("broker", "minute"),
            F.col("is_draining"),
            F.col("usage_ratio"),
            (F.col("msg_rate_in") + F.col("msg_rate_out")).alias("msg_rate"),
            (F.col("bytes_in") + F.col("bytes_out")).alias("bytes_s"),
        )
        for row in frame.toPandas().itertuples(index=False):
            yield BrokerSeries(
                broker_id=row.broker,
                minutes=np.asarray(row.minute, dtype=np.int64),
                is_draining=np.asarray(row.is_draining, dtype=np.bool_),
                usage=np.asarray(row.usage_ratio, dtype=np.float64),
                msg_rate=np.asarray(row.msg_rate, dtype=np.float64),
                bytes_s=np.asarray(row.bytes_s, dtype=np.float64),
                sizes=sizes.get(row.broker, ()),
            )

    def _sizes(self, span: "_Span") -> dict[str, list[RecordedSize]]:
        """Recorded sizes by broker, ordered by time."""
        rows = self._table("capacities").where(F.col("cluster") == span.cluster)
        found: dict[str, list[RecordedSize]] = {}
        for row in rows.select("broker", "at_ms", "cpu_limit_percent").orderBy("at_ms").collect():
            size = RecordedSize(span.minute_of(row["at_ms"]), row["cpu_limit_percent"])
            if size.minute <= span.minutes[-1]:
                found.setdefault(row["broker"], []).append(size)
        return found


def choose_minutes(
    cluster: str, minutes: Sequence[Minute], hours: int | None
) -> list[RecordedCycle]:
    """The newest cycle of each minute, by time; the oldest one of the first and the last minute.

    The effects of the first cycle, such as splits, show in the minute after it at the latest. Some
    rows of the last cycle may still be in an open segment: it is used only if it is the only one.

    Args:
        cluster: its name, for errors.
        minutes: all that have cycles, by time; one at least.
        hours: the newest of them that count; None: all.

    Raises:
        PipelineError: too many minutes to be replayed at once.
    """
    found = [*minutes]
    last = found[-1]
    if len(found) > 1 and last.oldest == last.newest:
        found.pop()
    if hours is not None:
        first = found[-1].minute - hours * _HOUR_MIN
        found = [each for each in found if each.minute > first]
    count = found[-1].minute - found[0].minute + 1
    if count > MOST_MINUTES:
        raise PipelineError(
            f"cluster {cluster}: {count} minutes; at most {MOST_MINUTES}: --hours"
            f" {MOST_MINUTES // _HOUR_MIN} takes the newest"
        )
    if found[-1].minute == last.minute:
        found[-1] = last._replace(newest=last.oldest)
    return [found[0].oldest, *(each.newest for each in found[1:])]


class _Span(NamedTuple):
    """The selected cycles.

    Attributes:
        cycles: by time.
        frame: the same with their minutes, from 0 on.
    """

    cluster: str
    cycles: list[RecordedCycle]
    frame: DataFrame

    @classmethod
    def of(cls, spark: SparkSession, cluster: str, cycles: list[RecordedCycle]) -> "_Span":
        start = cycles[0].at_ms // _MINUTE_MS
        rows = [(each.epoch, each.cycle, each.at_ms // _MINUTE_MS - start) for each in cycles]
        schema = "epoch long, cycle long, minute int"
        return cls(cluster, cycles, spark.createDataFrame(rows, schema))

    @property
    def minutes(self) -> list[int]:
        """Minutes with a cycle."""
        return [self.minute_of(each.at_ms) for each in self.cycles]

    def minute_of(self, at_ms: int) -> int:
        """Minute of a time, counted from the first cycle."""
        return at_ms // _MINUTE_MS - self.cycles[0].at_ms // _MINUTE_MS

    def rows(self, frame: DataFrame) -> DataFrame:
        """Rows of a table that belong to the selected cycles, each with its minute."""
        of_cluster = frame.where(F.col("cluster") == self.cluster)
        return of_cluster.join(F.broadcast(self.frame), ["epoch", "cycle"])


def _group_rows(rows: DataFrame, key: str, order: str, *others: Column) -> DataFrame:
    """A row for each key, with the others as lists in an order."""
    one = F.struct(order, *others)
    lists = rows.groupBy(key).agg(F.array_sort(F.collect_list(one)).alias("lists"))
    names = rows.select(order, *others).columns
    return lists.select(key, *(F.col(f"lists.{name}").alias(name) for name in names))


def _parse(kind: Any, text: str) -> Any:
    try:
        return kind.parse(text)
    except InvalidName as error:
        raise PipelineError(f"table bundle_loads: {error}") from error
