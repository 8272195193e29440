"""Takes in again what stands in quarantine: after an upgrade, or with a raised limit.

Lines that a newer release wrote have no fault for it; a segment that was too large is not for a
higher limit. Each is judged again, and becomes part of a new batch: of its tables, or of its
quarantine. The batches that had it in theirs are replaced, in the same step, by batches without.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from broker_ctl.pipeline import tables
from broker_ctl.pipeline.filesystem import alone, local_path, path_exists, resolve_location
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.sinks import Given, Sink
from broker_ctl.pipeline.tables import BATCH, QUARANTINE, BatchRow

_NAME_DIGITS: Final = 15
_PLACE: Final = "batch string, file string, line long"


class Readmitted(NamedTuple):
    """What came of the quarantine.

    Attributes:
        tried: lines and segments that were judged again.
        taken_lines: that are in the tables now.
        repeated_lines: that were there already.
        rows: of history that came with these lines.
        left: lines and segments that are in quarantine now.
    """

    tried: int
    taken_lines: int
    repeated_lines: int
    rows: int
    left: int


def readmit(spark: SparkSession, root: str, segment_bytes: int) -> Readmitted:
    """Judge again what is in quarantine, and take in what has no fault now.

    Of a line its text is judged. A segment is read again if it is still there.

    Args:
        spark: the session.
        root: of the tables.
        segment_bytes: size of a segment after decompression; a larger one stays in quarantine.

    Raises:
        PipelineError: an ingest or a merge runs, or something cannot be read or written.
    """
    place = resolve_location(root)
    with alone(local_path(spark, place)), translate_spark_errors(root):
        sink = Sink(spark, place, lambda _: None, segment_bytes)
        sink.sweep()
        return _Readmission(spark, place, sink).run()


@dataclass(frozen=True, slots=True)
class _Readmission:
    spark: SparkSession
    root: str
    sink: Sink

    def run(self) -> Readmitted:
        """All of it."""
        before = self.sink.batches()
        held = tables.read_batches(self.spark, self.root, QUARANTINE, before)
        places = held.select(BATCH, "file", "line", F.col("text").isNotNull().alias("is_text"))
        rows = places.collect()
        tried = self._choose(rows)
        if not tried:
            return Readmitted(0, 0, 0, 0, len(rows))
        given = self._given(held, tried)
        new = self.sink.write(given)
        whole = sum(each["line"] == 0 for each in tried)
        new = new._replace(segments=whole)
        # Rows of a quarantine name the batch that brought them, which has another name by now.
        names = {each: row for row in before for each in self._names(row)}
        by_row: dict[str, list[Row]] = {}
        for each in tried:
            by_row.setdefault(names[each[BATCH]].batch, []).append(each)
        others = [self._without(row, by_row[row.batch]) for row in before if row.batch in by_row]
        self.sink.commit([new, *others])
        left = len(rows) - len(tried) + new.faulty_lines + new.unreadable
        return Readmitted(len(tried), new.taken_lines, new.repeated_lines, new.rows, left)

    def _names(self, row: BatchRow) -> set[str]:
        files = tables.files_of(self.spark, self.root, QUARANTINE, [row])
        return {tables.part_of(each, BATCH) for each in files}

    def _choose(self, rows: Sequence[Row]) -> list[Row]:
        """What can be judged again."""
        segments = {each["file"] for each in rows if each["line"] == 0}
        there = {each for each in segments if path_exists(self.spark, unquote(each))}
        return [
            each
            for each in rows
            if (each["file"] in there if each["line"] == 0 else each["is_text"])
            and not (each["is_text"] and each["file"] in there)
        ]

    def _given(self, held: DataFrame, tried: Sequence[Row]) -> Given:
        whole = sorted({each["file"] for each in tried if each["line"] == 0})
        texts = sorted({each["file"] for each in tried if each["line"]})
        text = "\n".join(sorted(f"{each[BATCH]} {each['file']} {each['line']}" for each in tried))
        name = "r" + hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]
        lines = F.collect_list(F.struct("line", "text")).alias("lines")
        some = held.where("text IS NOT NULL").where(F.col("file").isin(texts))
        by_file = some.groupBy("file").agg(lines)
        paths = [(each, unquote(each)) for each in (*whole, *texts)]
        named = self.spark.createDataFrame(paths, "file string, path string")
        rows = named.join(by_file, "file", "left").selectExpr("file", "path", "lines")
        return Given(name, rows, frozenset((*whole, *texts)), {})

    def _without(self, row: BatchRow, tried: Sequence[Row]) -> BatchRow:
        """What replaces a batch: its rows and lines, and what is left of its quarantine."""
        old = tables.files_of(self.spark, self.root, QUARANTINE, [row])
        name = "q" + hashlib.sha256(row.batch.encode()).hexdigest()[:_NAME_DIGITS]
        places = [(each[BATCH], each["file"], each["line"]) for each in tried]
        gone = self.spark.createDataFrame(places, _PLACE)
        held = tables.read_files(self.spark, self.root, QUARANTINE, old)
        left = held.join(F.broadcast(gone), [BATCH, "file", "line"], "left_anti")
        every = [
            each
            for table in tables.BATCHED
            for each in tables.files_of(self.spark, self.root, table, [row])
        ]
        files = [each for each in every if each not in set(old)]
        counts = Counter(each["line"] > 0 for each in tried)
        unreadable, faulty = row.unreadable - counts[False], row.faulty_lines - counts[True]
        if unreadable + faulty:
            files += self.sink.append(name, left, QUARANTINE)
        return row._replace(
            batch=name,
            segments=row.segments - counts[False],
            unreadable=unreadable,
            lines=row.lines - counts[True],
            faulty_lines=faulty,
            replaces=(row.batch,),
            files=tuple(files),
        )
