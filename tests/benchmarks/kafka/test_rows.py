"""What the comparison with Kafka makes of its runs, and of the lines of Kafka's log."""

import os
from pathlib import Path

import pytest

from tests.benchmarks.kafka import cpu, rows
from tests.benchmarks.kafka.cluster import KafkaBroker
from tests.benchmarks.kafka.release import Release
from tests.benchmarks.kafka.sizes import Sizes

# As Kafka 3.9.1 writes them.
LINES = (
    "2026-11-26 19:52:27,614 INFO logger [Broker id=1] Handling LeaderAndIsr request correlationId "
    "5 from controller 1 for 200 partitions\n"
    "2026-11-26 19:52:28,535 INFO logger [Broker id=1] Finished LeaderAndIsr request in 919ms "
    "correlationId 5 from controller 1 for 200 partitions\n"
    "2026-11-26 19:52:29,001 INFO logger [Broker id=1] Finished LeaderAndIsr request in 2ms "
    "correlationId 6 from controller 1 for 1 partitions\n"
)


def test_rows_are_medians_and_the_ratio_is_of_them() -> None:
    ours, kafka = rows.Rows(), rows.Rows()
    for our_s, kafka_s in ((1.0, 4.0), (2.0, 5.0), (9.0, 6.0)):
        ours.add(rows.CREATION, our_s, {"brokers": our_s / 2, "servers": 0.5})
        kafka.add(rows.CREATION, kafka_s, {"brokers": 3.0, "servers": kafka_s})
    # A row that only one of them has is left out.
    ours.add(rows.DELETION, 1.0, {})
    assert rows.side_by_side(ours, kafka) == {
        rows.CREATION: {
            "seconds": 2.0,
            "kafka_seconds": 5.0,
            "kafka_ratio": 2.5,
            "cpu_s": {"brokers": 1.0, "servers": 0.5},
            "kafka_cpu_s": {"brokers": 3.0, "servers": 5.0},
        }
    }


def test_cpu_time_is_that_between_two_times_also_of_processes_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used_s = {1: 5.0, 2: 7.0}
    running = [1, 2]
    monkeypatch.setattr(cpu, "cpu_s", lambda pid: used_s[pid])
    samples = cpu.CpuSamples(lambda: {"brokers": running})
    samples.sample(10.0)
    used_s[1] = 6.0
    samples.sample(11.0)
    running.remove(2)
    used_s[1] = 9.0
    samples.sample(12.0)
    assert samples.within(10.5, 11.5) == {"brokers": 4.0}
    assert samples.within(10.5, 10.9) == {"brokers": 1.0}


def test_cpu_time_is_read_from_the_kernel() -> None:
    before_s = cpu.cpu_s(os.getpid())
    while cpu.cpu_s(os.getpid()) == before_s:
        pass
    assert cpu.cpu_s(2**22 + 1) == 0.0


def test_each_instruction_that_was_carried_out_is_found_once(tmp_path: Path) -> None:
    broker = KafkaBroker(
        Release(Path("java"), "3.9.1", tmp_path), tmp_path, 1, 9092, "zk:2181", heap_mb=64
    )
    assert broker.finished(0.0) == []
    log = tmp_path / "log"
    log.write_text(LINES + "2026-11-26 19:52:30,000 INFO a line that is not who", encoding="utf-8")
    (first_s, first), (second_s, second) = broker.finished(0.0)
    assert (first, second) == (200, 1)
    assert second_s - first_s == pytest.approx(0.466)
    assert broker.finished(0.0) == []
    log.write_text(f"{log.read_text(encoding='utf-8')}le\n{LINES}", encoding="utf-8")
    assert broker.finished(second_s) == [(second_s, 1)]


async def test_a_broker_that_has_ended_is_named_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text(
        "#!/bin/sh\necho too many files\necho '[KafkaServer id=1] started'\n", encoding="utf-8"
    )
    program.chmod(0o755)
    broker = KafkaBroker(
        Release(program, "3.9.1", tmp_path), tmp_path, 1, 9092, "zk:2181", heap_mb=64
    )
    await broker.start()
    await broker.kill()
    with pytest.raises(AssertionError, match=r"broker 1 of Kafka ended\n(?s:.*)too many files"):
        broker.assert_running()


def test_logs_of_a_deleted_topic_are_there_until_their_files_go(tmp_path: Path) -> None:
    broker = KafkaBroker(
        Release(Path("java"), "3.9.1", tmp_path), tmp_path, 1, 9092, "zk:2181", heap_mb=64
    )
    assert not broker.has_deleted_logs()
    (tmp_path / "data/large-0-7").mkdir(parents=True)
    assert not broker.has_deleted_logs()
    (tmp_path / "data/large-0-7").rename(tmp_path / "data/large-0-7.0a1b-delete")
    assert broker.has_deleted_logs()


def test_sizes_say_how_many_files_a_broker_opens() -> None:
    three = Sizes(2_000, 1_000, 10_000, 3, 64, 3, rows.ROWS)
    two = Sizes(2_000, 1_000, 10_000, 2, 64, 3, rows.ROWS)
    assert three.files_of_a_broker(3) - two.files_of_a_broker(3) == 10_000 - 6_667
    assert three.files_of_a_broker(3) > 13_000
    assert three.large_lists([3, 1, 2]) == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    assert two.large_lists([3, 1, 2]) == [[1, 2], [2, 3], [3, 1]]
