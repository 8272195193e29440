"""A synthesised history in parts: one replay each, which is written by itself.

A history that is to be large has several clusters of each replay. They are run alike: what a leader
decides takes most of the time, and is worked out once for all of them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from broker_ctl.codec import encode
from broker_ctl.core.history.row_kinds import BUNDLE_LOADS
from broker_ctl.core.history.rows import PolicyVersionRow
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.synthesis.history_writer import HistoryWriter
from broker_ctl.pipeline.synthesis.segments import SegmentFiles
from broker_ctl.simulation.replay.cluster import ReplayCluster, by_minute
from broker_ctl.simulation.replay.replay import POLICIES, ReplayCourse
from broker_ctl.simulation.scenarios import BROKERS, BUNDLES_PER_BROKER, scenario

POLICY: Final = "balance"
_RELEASE: Final = "synthesised"
# Seeds of the same scenario in other clusters.
_STRIDE: Final = 1_000
# Clusters of one replay, where many are wanted: what their names end with.
_ALIKE: Final = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Shard:
    """Clusters of a synthesised history that are run alike.

    Attributes:
        clusters: their names.
        name: of the scenario.
        seed: of the scenario; None: its own.
        start_ms: wall clock when it begins.
        directory: of the segments.
    """

    clusters: tuple[str, ...]
    name: str
    hours: int
    brokers: int
    seed: int | None
    start_ms: int
    directory: str


class WrittenShard(NamedTuple):
    """What one shard has come to.

    Attributes:
        bundle_rows: of ``bundle_loads``.
    """

    clusters: int
    files: int
    lines: int
    rows: int
    bundle_rows: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a synthesised history is.

    Attributes:
        names: scenarios that are taken in turns.
        rows: of ``bundle_loads`` at least; None: each scenario once, in one cluster.
        hours: of each cluster.
        brokers: of each cluster.
        seed: 0: the scenarios' own, in their first turn.
    """

    names: Sequence[str]
    rows: int | None = None
    hours: int = 24
    brokers: int = BROKERS
    seed: int = 0


def shards_of(extent: Extent, start_ms: int, directory: Path) -> list[Shard]:
    """The clusters of a history; equal arguments give equal histories."""
    shards = []
    for number, endings in enumerate(_endings(extent)):
        turn, place = divmod(number, len(extent.names))
        name = extent.names[place]
        shards.append(
            Shard(
                clusters=tuple(f"{name}-{turn}{ending}" for ending in endings),
                name=name,
                hours=extent.hours,
                brokers=extent.brokers,
                seed=extent.seed + turn * _STRIDE if extent.seed or turn else None,
                start_ms=start_ms,
                directory=str(directory),
            )
        )
    return shards


def _endings(extent: Extent) -> list[Sequence[str]]:
    """Of each replay what the names of its clusters end with; all have about as many."""
    if extent.rows is None:
        return [("",)] * len(extent.names)
    # A split makes more of them.
    each = extent.hours * 60 * extent.brokers * BUNDLES_PER_BROKER
    clusters = -(-extent.rows // each)
    replays = -(-clusters // len(_ALIKE))
    some, more = divmod(clusters, replays)
    return [_ALIKE[: some + (number < more)] for number in range(replays)]


def write_shard(shard: Shard) -> WrittenShard:
    """Replay it, and write what the daemons of its clusters would have written.

    Raises:
        PipelineError: it cannot be written.
        SettingsError: a scenario that is too small or too large.
    """
    plot = scenario(shard.name, brokers=shard.brokers, hours=shard.hours, seed=shard.seed)
    contestant = POLICIES[POLICY]()
    present = [broker for broker in plot.brokers if broker not in plot.absent]
    events = by_minute(plot.events)
    try:
        with SegmentFiles(Path(shard.directory), shard.clusters, shard.seed or 0) as files:
            history = HistoryWriter(
                files, shard.start_ms, present, _policy_row(), contestant.pace.move_s
            )
            course = ReplayCourse(plot, contestant.rules, contestant.pace, history.write_cycle)
            history.begin(zip(plot.traffic.bundles, plot.owners, strict=True))
            for minute in range(plot.traffic.minutes):
                for event in events.get(minute, ()):
                    history.apply_event(event)
                course.replay_minute(minute)
                history.write_minute(course.record, partial(_owner_in, course.cluster))
    except OSError as error:
        raise PipelineError(f"{shard.directory}: {error.strerror or error}") from error
    size = len(shard.clusters)
    rows, bundle_rows = sum(files.rows.values()), files.rows[BUNDLE_LOADS.name]
    return WrittenShard(size, files.files, files.lines, rows * size, bundle_rows * size)


def _owner_in(cluster: ReplayCluster, bundle: Bundle) -> str | None:
    place = cluster.place_of(bundle)
    return None if place is None else cluster.owner_ids[place]


def _policy_row() -> PolicyVersionRow:
    settings = encode({"policy": POLICY})
    return PolicyVersionRow(
        policy_hash=hashlib.sha256(settings).hexdigest(),
        load_manager=POLICY,
        shedding=POLICY,
        placement=POLICY,
        settings=settings.decode(),
        release=_RELEASE,
    )


# The job that writes them, a shard a task.


def synthesise(spark: SparkSession, shards: Sequence[Shard]) -> Iterator[WrittenShard]:
    """Write them all, as many at a time as there are cores; progress is reported a round at a time.

    Raises:
        PipelineError: one cannot be written, or is too large.
    """
    cores = spark.sparkContext.defaultParallelism
    # Several rounds for progress, and none waits long for its last task.
    size = max(cores * 4, -(-len(shards) // 10))
    for first in range(0, len(shards), size):
        some = shards[first : first + size]
        with translate_spark_errors("synth"):
            yield from spark.sparkContext.parallelize(some, len(some)).map(write_shard).collect()
