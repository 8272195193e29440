"""Storages of replicas: in memory, and in a directory that outlives the process."""

import asyncio
import sys
from pathlib import Path

import pytest

from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import InvalidName
from broker_ctl.lab.replication import storage as directory
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.replication.storage import (
    DirectoryStorage,
    Holding,
    MemoryStorage,
    ReplicaStorage,
    Stored,
)
from tests.support.replicas.replica_planes import ORDERS, TOPIC_ID
from tests.support.time.waiting import eventually

OTHER = TopicPartition("orders", 1)
A, B, C = LogRecord(0, b"a"), LogRecord(0, b"\x00" * 300), LogRecord(3, b"")


@pytest.fixture(params=["memory", "directory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ReplicaStorage:
    kept = MemoryStorage() if request.param == "memory" else DirectoryStorage(tmp_path / "logs")
    kept.load()
    return kept


def test_what_is_held_is_found_again(storage: ReplicaStorage) -> None:
    storage.hold([Holding(ORDERS, TOPIC_ID, 0), Holding(OTHER, TOPIC_ID, 4)])
    storage.append(ORDERS, [A, B])
    storage.append(ORDERS, [C])
    storage.hold([Holding(ORDERS, TOPIC_ID, 7)])
    assert storage.load() == {
        ORDERS: Stored(TOPIC_ID, 7, [A, B, C]),
        OTHER: Stored(TOPIC_ID, 4, []),
    }


def test_a_log_that_was_cut_goes_on_from_there(storage: ReplicaStorage) -> None:
    storage.hold([Holding(ORDERS, TOPIC_ID, 0)])
    storage.append(ORDERS, [A, B, C])
    storage.truncate(ORDERS, 5)
    storage.truncate(ORDERS, 1)
    assert storage.load()[ORDERS].records == [A]
    storage.append(ORDERS, [C])
    storage.append(ORDERS, [C])
    assert storage.load()[ORDERS].records == [A, C, C]
    storage.truncate(ORDERS, 0)
    storage.append(ORDERS, [B])
    assert storage.load()[ORDERS].records == [B]


def test_a_replica_that_is_removed_leaves_no_record_for_the_next_one(
    storage: ReplicaStorage,
) -> None:
    storage.hold([Holding(ORDERS, TOPIC_ID, 0), Holding(OTHER, TOPIC_ID, 0)])
    storage.append(ORDERS, [A])
    storage.remove([ORDERS, TopicPartition("unknown", 0)])
    assert set(storage.load()) == {OTHER}
    storage.hold([Holding(ORDERS, "f" * 32, 0)])
    assert storage.load()[ORDERS] == Stored("f" * 32, 0, [])


def test_replicas_without_records_have_no_files(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.load()
    storage.hold([Holding(TopicPartition("many", n), TOPIC_ID, 0) for n in range(1000)])
    storage.append(TopicPartition("many", 7), [A])
    storage.close()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["held", "7"]
    assert len(DirectoryStorage(tmp_path).load()) == 1000


@pytest.mark.parametrize("lost", range(1, 15))
def test_a_torn_last_record_is_dropped(tmp_path: Path, lost: int) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.load()
    storage.hold([Holding(ORDERS, TOPIC_ID, 0)])
    storage.append(ORDERS, [A, LogRecord(2, b"xy")])
    path = tmp_path / "records" / "orders" / "0"
    path.write_bytes(path.read_bytes()[:-lost])
    found = DirectoryStorage(tmp_path)
    assert found.load()[ORDERS].records == ([A] if lost <= 14 else [])
    found.append(ORDERS, [C])
    assert found.load()[ORDERS].records == [A, C]


def test_what_a_failed_write_left_behind_is_written_over(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.load()
    storage.hold([Holding(ORDERS, TOPIC_ID, 0)])
    storage.append(ORDERS, [A])
    path = tmp_path / "records" / "orders" / "0"
    path.write_bytes(path.read_bytes() + b"half a record")
    storage.append(ORDERS, [C])
    assert DirectoryStorage(tmp_path).load()[ORDERS].records == [A, C]


def test_a_spoilt_record_ends_the_log(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.load()
    storage.hold([Holding(ORDERS, TOPIC_ID, 0)])
    storage.append(ORDERS, [A, LogRecord(1, b"spoilt"), A])
    path = tmp_path / "records" / "orders" / "0"
    path.write_bytes(path.read_bytes().replace(b"spoilt", b"sp0ilt"))
    assert storage.load()[ORDERS].records == [A]


def test_a_torn_last_line_says_nothing(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.load()
    storage.hold([Holding(ORDERS, TOPIC_ID, 0), Holding(OTHER, TOPIC_ID, 5)])
    storage.close()
    held = tmp_path / "held"
    held.write_bytes(held.read_bytes()[:-4])
    assert DirectoryStorage(tmp_path).load() == {ORDERS: Stored(TOPIC_ID, 0, [])}


def test_logs_that_nothing_holds_are_removed_at_the_start(tmp_path: Path) -> None:
    """The process was killed between forgetting a replica and removing its records."""
    storage = DirectoryStorage(tmp_path)
    storage.load()
    storage.hold([Holding(ORDERS, TOPIC_ID, 0)])
    storage.append(ORDERS, [A])
    storage.close()
    (tmp_path / "held").write_bytes(b"")
    assert DirectoryStorage(tmp_path).load() == {}
    assert not (tmp_path / "records" / "orders" / "0").exists()


def test_the_file_of_holdings_is_compacted_when_most_of_its_lines_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_SPARE_LINES", 10)
    storage = DirectoryStorage(tmp_path)
    storage.load()
    for epoch in range(1000):
        storage.hold([Holding(ORDERS, TOPIC_ID, epoch)])
    assert len((tmp_path / "held").read_bytes().splitlines()) < 20
    assert DirectoryStorage(tmp_path).load()[ORDERS].leader_epoch == 999


def test_a_line_with_a_path_out_of_the_directory_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "held").write_bytes(b'["../../etc",0,"x",1]\n')
    with pytest.raises(OSError, match=r"held: .*\.\./\.\./etc"):
        DirectoryStorage(tmp_path).load()


def test_no_path_leads_out_of_the_directory(tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    storage.load()
    with pytest.raises(InvalidName):
        storage.append(TopicPartition("../out", 0), [A])


_WRITER = """
import sys
from pathlib import Path
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.lab.replication.storage import DirectoryStorage
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.replication.storage import Holding
storage = DirectoryStorage(Path(sys.argv[1]))
storage.load()
orders = TopicPartition("orders", 0)
for number in range(1 << 30):
    storage.hold([Holding(orders, "id", number)])
    storage.append(orders, [LogRecord(number, b"%d" % number)])
    print(number, flush=True)
"""


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged"
    with acknowledged.open("wb") as output:
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _WRITER, str(tmp_path), stdout=output
        )
    try:
        await eventually(lambda: acknowledged.read_bytes().count(b"\n") > 200, what="200 records")
    finally:
        writer.kill()
        await writer.wait()
    last = int(acknowledged.read_bytes().rpartition(b"\n")[0].rpartition(b"\n")[2])
    stored = DirectoryStorage(tmp_path).load()[ORDERS]
    assert stored.leader_epoch >= last
    assert [record.value for record in stored.records[: last + 1]] == [
        b"%d" % number for number in range(last + 1)
    ]
