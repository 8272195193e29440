"""Synthesised histories: what stands in them, and that they are the same each time."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.core.history.row_kinds import KINDS, parse_line
from broker_ctl.pipeline.synthesis.shards import Extent, Shard, WrittenShard, shards_of, write_shard
from broker_ctl.simulation.replay.replay import POLICIES, replay
from broker_ctl.simulation.scenarios import scenario
from tests.support.pipeline.segment_files import DAY_ONE_MS

NAME, HOURS, BROKERS = "giant-bundle", 1, 3


def written(directory: Path) -> tuple[WrittenShard, list[dict[str, Any]]]:
    directory.mkdir()
    done = write_shard(Shard(("c",), NAME, HOURS, BROKERS, None, DAY_ONE_MS, str(directory)))
    return done, read(directory, "c")


def read(directory: Path, cluster: str) -> list[dict[str, Any]]:
    paths = sorted(directory.glob(f"{cluster}-*"))
    texts = (gzip.decompress(path.read_bytes()) for path in paths)
    return [json.loads(text) for data in texts for text in data.splitlines()]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[WrittenShard, list[dict[str, Any]]]:
    return written(tmp_path_factory.mktemp("synthesised") / "one")


def test_every_line_is_one_that_a_daemon_could_have_written(
    history: tuple[WrittenShard, list[dict[str, Any]]],
) -> None:
    done, lines = history
    read = [parse_line(line) for line in lines]
    assert done.lines == len(lines)
    assert done.rows == sum(len(each.rows) for each in read)
    assert len({each.stamp.id for each in read}) == len(read)
    # A scenario knows of no replicated partitions, and nobody sends requests.
    unknown = {"partition_transitions", "audit_events"}
    assert {each.stamp.kind for each in read} == set(KINDS) - unknown


def test_each_cycle_has_one_row_for_each_bundle(
    history: tuple[WrittenShard, list[dict[str, Any]]],
) -> None:
    done, lines = history
    keys = Counter(
        (line["epoch"], line["cycle"], bundle)
        for line in lines
        if line["kind"] == "bundle_loads"
        for bundle in line["bundle"]
    )
    assert set(keys.values()) == {1}
    assert len(keys) == done.bundle_rows >= 50 * BROKERS * (60 * HOURS - 1)


def test_what_moves_is_what_the_replay_moves(
    history: tuple[WrittenShard, list[dict[str, Any]]],
) -> None:
    contestant = POLICIES["balance"]()
    replayed = replay(
        scenario(NAME, brokers=BROKERS, hours=HOURS), contestant.rules, contestant.pace
    )
    moved = [(each.bundle, each.destination) for each in replayed.moves]
    assert moved
    start = BROKERS * 50
    come = [
        (line["bundle"], line["writer"])
        for line in history[1]
        if line["kind"] == "ownership_changes" and line["is_acquired"] and line["cause"] != "split"
    ]
    assert [(str(bundle), broker) for bundle, broker in moved] == come[start:]
    splits = [line for line in history[1] if line.get("decision") == "split"]
    done = [line["bundle"] for line in splits if line["result"] == "done"]
    assert sorted(done) == sorted(str(each.before[0]) for each in replayed.splits)


def test_a_split_is_done_where_there_are_children_and_failed_elsewhere(tmp_path: Path) -> None:
    # Some of its bundles have a topic that carries most, and their owners find no place to cut.
    write_shard(Shard(("c",), "steady-skew", 1, 3, None, DAY_ONE_MS, str(tmp_path)))
    lines = read(tmp_path, "c")
    splits = Counter(line["result"] for line in lines if line.get("decision") == "split")
    changes = [line for line in lines if line["kind"] == "ownership_changes"]
    made = [line for line in changes if line["cause"] == "split" and line["is_acquired"]]
    assert splits["done"] == len(made) / 2 > 0
    assert splits["failed"] > 0
    failed = [line for line in lines if line.get("result") == "failed"]
    assert {line["outcome"] for line in failed} == {"its owner found no place to cut it at"}


def test_the_same_arguments_write_the_same_files(
    tmp_path: Path, history: tuple[WrittenShard, list[dict[str, Any]]]
) -> None:
    assert written(tmp_path / "again") == history


def test_there_are_as_many_clusters_as_it_takes(tmp_path: Path) -> None:
    shards = shards_of(Extent(("diurnal", "steady-skew"), 7_500_000, 24), DAY_ONE_MS, tmp_path)
    assert [len(shard.clusters) for shard in shards] == [4, 4, 3]
    assert len({(shard.name, shard.seed) for shard in shards}) == 3
    assert len({name for shard in shards for name in shard.clusters}) == 11
    (alone,) = shards_of(Extent(("diurnal",)), DAY_ONE_MS, tmp_path)
    assert (alone.seed, alone.clusters) == (None, ("diurnal-0",))


def test_clusters_that_are_run_alike_differ_in_names_and_ids_only(
    tmp_path: Path, history: tuple[WrittenShard, list[dict[str, Any]]]
) -> None:
    (tmp_path / "both").mkdir()
    both = Shard(("c", "d"), NAME, HOURS, BROKERS, None, DAY_ONE_MS, str(tmp_path / "both"))
    alone, lines = history
    done = write_shard(both)
    assert (done.clusters, done.rows, done.lines) == (2, 2 * alone.rows, 2 * alone.lines)
    ours, theirs = (read(tmp_path / "both", cluster) for cluster in ("c", "d"))
    assert ours == lines
    assert not {line["id"] for line in ours} & {line["id"] for line in theirs}
    same = {"cluster": "c", "id": ""}
    assert [line | same for line in theirs] == [line | same for line in ours]
