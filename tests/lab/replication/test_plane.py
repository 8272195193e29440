"""Broker processes that replicate to each other over real sockets."""

import asyncio
from pathlib import Path

import pytest

from broker_ctl.core.partitions.instructions import (
    STALE_EPOCH,
    STORAGE_ERROR,
    WRONG_TOPIC_ID,
    ReplicaError,
    ReplicaStop,
)
from broker_ctl.core.partitions.values import NO_LEADER, TopicPartition
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, IsrAnswer, ReplicaPlane
from broker_ctl.errors import (
    DataPlaneError,
    DataPlaneFenced,
    DataPlaneRefused,
    DataPlaneUnreachable,
    StartError,
)
from broker_ctl.lab.replication.log import LogRecord
from broker_ctl.lab.replication.storage import DirectoryStorage
from broker_ctl.lab.time import ManualClock
from tests.support.replicas.replica_planes import (
    LAG_S,
    ORDERS,
    TOPIC_ID,
    Planes,
    instruction,
    state,
)
from tests.support.time.waiting import eventually

ALL = (1, 2, 3)


async def test_what_is_produced_is_committed_when_all_in_sync_have_it() -> None:
    async with Planes() as planes:
        plane: ReplicaPlane = planes[1]
        assert await plane.replicas() == []
        await planes.instruct(instruction(state(1, 0, ALL)))
        done = await planes.client(1).produce(ORDERS, [b"a", b"\x00\xff"])
        assert done == (0, 0)
        for number in planes.ids:
            records = await planes.client(number).log(ORDERS)
            assert records == [LogRecord(0, b"a"), LogRecord(0, b"\x00\xff")]
        consumed = await planes.client(1).consume(ORDERS, 1)
        assert consumed == ([LogRecord(0, b"\x00\xff")], 2)
        assert await plane.replicas() == [HeldReplica(ORDERS, TOPIC_ID, 0)]


async def test_what_only_the_leader_has_is_not_given_out() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)), 1, 2)
        assert await planes.client(1).produce(ORDERS, [b"a"], is_for_all=False) == (0, 0)
        await planes.wait_log(2, [b"a"])
        assert await planes.client(1).consume(ORDERS) == ([], 0)
        await planes.instruct(instruction(state(1, 0, ALL)), 3)

        async def consumed() -> list[LogRecord]:
            return (await planes.client(1).consume(ORDERS)).records

        assert await eventually(consumed) == [LogRecord(0, b"a")]


async def test_a_follower_cuts_off_what_the_leader_never_had() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)))
        await planes.client(1).produce(ORDERS, [b"a"])
        # The others have no leader: records that 1 takes now stay on 1.
        for number in (2, 3):
            await planes.instruct(instruction(state(NO_LEADER, 1, ALL)), number)
        await planes.client(1).produce(ORDERS, [b"lost", b"lost too"], is_for_all=False)
        await planes.instruct(instruction(state(2, 2, (2, 3))), 2, 3)
        await planes.client(2).produce(ORDERS, [b"b"])
        assert not planes[2]._fetchers._followed
        await planes.instruct(instruction(state(2, 2, (2, 3))), 1)
        await planes.wait_log(1, [b"a", b"b"])
        held = {one.partition: one for one in await planes.client(1).held()}[ORDERS]
        assert (held.role, held.leader_epoch, held.epoch_starts) == (
            "follower",
            2,
            ((0, 0), (2, 1)),
        )
        await planes.client(2).produce(ORDERS, [b"c"])
        await planes.wait_log(1, [b"a", b"b", b"c"])


async def test_a_follower_that_starts_before_its_leader_is_served_later() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)), 2, 3)
        await planes.instruct(instruction(state(1, 0, ALL)), 1)
        assert (await planes.client(1).produce(ORDERS, [b"a"])).offset == 0


async def test_stale_and_foreign_news_are_refused() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 3, ALL)))
        lead, follow = planes[1].become_leader, planes[1].become_follower
        stale = [ReplicaError(ORDERS, STALE_EPOCH)]
        assert await lead([instruction(state(1, 2, ALL))]) == stale
        assert await follow([instruction(state(2, 2, ALL))], planes.addresses) == stale
        # One epoch has one leader.
        assert await follow([instruction(state(2, 3, ALL))], planes.addresses) == stale
        assert await planes[2].become_leader([instruction(state(2, 3, ALL))]) == stale
        foreign = [ReplicaError(ORDERS, WRONG_TOPIC_ID)]
        assert await lead([instruction(state(1, 9, ALL), topic_id="f" * 32)]) == foreign
        stop = ReplicaStop(ORDERS, TOPIC_ID, 2, is_deleted=False)
        assert await planes[1].stop_replicas([stop]) == stale
        assert await planes[1].stop_replicas([stop._replace(topic_id="f" * 32)]) == foreign
        assert await planes[1].replicas() == [HeldReplica(ORDERS, TOPIC_ID, 3)]
        await planes.client(1).produce(ORDERS, [b"still led"])


async def test_one_bad_replica_does_not_stop_the_others() -> None:
    async with Planes(1) as planes:
        bad, good = TopicPartition("../bad", 0), TopicPartition("good", 0)
        new = state(1, 0, (1,))
        errors = await planes[1].become_leader([instruction(new, bad), instruction(new, good)])
        assert errors == [ReplicaError(bad, "failed")]
        await planes.client(1).produce(good, [b"a"])


async def test_the_same_epoch_again_brings_version_and_isr() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL, 4)))
        await planes.client(1).produce(ORDERS, [b"a"])
        await planes.instruct(instruction(state(1, 0, (1, 2), 7)), 1)
        assert (await planes.client(1).held())[0].isr == (1, 2)
        await planes.instruct(instruction(state(1, 0, ALL, 5)), 1)
        assert (await planes.client(1).held())[0].isr == (1, 2)
        proposal = await planes.wait_proposal(1, ALL)
        assert proposal.version == 7


async def test_without_authority_nothing_is_taken_given_or_acknowledged() -> None:
    """Hole (a): ISR {A} and an unclean election; A wakes up and must not commit alone."""
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, (1,))))
        await planes.client(1).produce(ORDERS, [b"a"])

        async def is_copied() -> bool:
            return await planes.client(2).log(ORDERS) == [LogRecord(0, b"a")]

        # It is not in sync, so the answer did not wait for it.
        await eventually(is_copied)
        planes.authority[1] = Authority(1, planes.clock.now_s())
        for is_for_all in (True, False):
            with pytest.raises(DataPlaneRefused, match="no authority"):
                await planes.client(1).produce(ORDERS, [b"b"], is_for_all=is_for_all)
        with pytest.raises(DataPlaneRefused, match="no authority"):
            await planes.client(1).consume(ORDERS)
        assert await planes.client(1).log(ORDERS) == [LogRecord(0, b"a")]
        await planes.instruct(instruction(state(2, 1, (2,))), 2)
        assert await planes.client(2).produce(ORDERS, [b"c"]) == (1, 1)


async def test_what_is_committed_after_authority_is_over_is_not_acknowledged() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, (1, 2))), 1)
        async with asyncio.TaskGroup() as tasks:
            sent = tasks.create_task(expect_unreachable(planes, b"a"), name="produce")
            await planes.wait_log(1, [b"a"])
            planes.authority[1] = Authority()
            await planes.instruct(instruction(state(1, 0, (1, 2))), 2)
        assert "no authority" in sent.result()


async def expect_unreachable(planes: Planes, value: bytes) -> str:
    with pytest.raises(DataPlaneUnreachable) as met:
        await planes.client(1).produce(ORDERS, [value])
    return str(met.value)


async def test_a_leadership_that_ends_leaves_producers_in_doubt() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, (1, 2))), 1)
        async with asyncio.TaskGroup() as tasks:
            sent = tasks.create_task(expect_unreachable(planes, b"a"), name="produce")
            await planes.wait_log(1, [b"a"])
            await planes.instruct(instruction(state(2, 1, (1, 2))), 1)
        assert "their fate is unknown" in sent.result()


async def test_a_leader_that_learns_of_a_newer_epoch_takes_nothing_more() -> None:
    """A wakes up, would shrink the ISR, and learns that B was elected (docs: kafka-design-v3)."""
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, (1, 2))), 1)
        async with asyncio.TaskGroup() as tasks:
            sent = tasks.create_task(expect_unreachable(planes, b"a"), name="produce")
            await planes.wait_log(1, [b"a"])
            elected = state(2, 1, (2,))
            await planes[1].answer_proposals([IsrAnswer(ORDERS, elected, is_granted=False)])
        assert "their fate is unknown" in sent.result()
        with pytest.raises(DataPlaneFenced, match="the store has a newer leader epoch"):
            await planes.client(1).produce(ORDERS, [b"b"])
        assert await planes[1].isr_proposals(LAG_S) == []
        await planes.instruct(instruction(elected), 2)
        await planes.client(2).produce(ORDERS, [b"c"])
        await planes.instruct(instruction(elected), 1)
        await planes.wait_log(1, [b"c"])


async def test_followers_learn_what_is_committed() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)))
        await planes.client(1).produce(ORDERS, [b"a", b"b"])
        for number in (2, 3):

            async def watermark(number: int = number) -> int:
                return (await planes.client(number).held())[0].high_watermark

            assert await eventually(watermark) == 2


async def test_a_wrong_leader_epoch_is_refused() -> None:
    async with Planes(1) as planes:
        await planes.instruct(instruction(state(1, 4, (1,)), replicas=(1,)))
        client = planes.client(1)
        await client.produce(ORDERS, [b"a"], leader_epoch=4)
        with pytest.raises(DataPlaneFenced, match="led under epoch 4, not 3"):
            await client.produce(ORDERS, [b"b"], leader_epoch=3)
        with pytest.raises(DataPlaneRefused, match="led under epoch 4, not 5"):
            await client.consume(ORDERS, leader_epoch=5)
        with pytest.raises(DataPlaneRefused, match="not led here"):
            await client.produce(TopicPartition("other", 0), [b"b"])


async def test_with_too_few_in_sync_nothing_is_taken_for_all() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, (1,)), min_isr=2), 1)
        with pytest.raises(DataPlaneRefused, match="1 in sync, 2 are wanted"):
            await planes.client(1).produce(ORDERS, [b"a"])
        await planes.client(1).produce(ORDERS, [b"b"], is_for_all=False)
        await planes.instruct(instruction(state(1, 0, (1,))), 2)
        await planes.grant(1, await planes.wait_proposal(1, (1, 2)))
        assert await planes.client(1).produce(ORDERS, [b"c"]) == (1, 0)


async def test_a_follower_that_dies_leaves_the_isr_and_comes_back() -> None:
    clock = ManualClock()
    async with Planes(clock=clock) as planes:
        await planes.instruct(instruction(state(1, 0, ALL)))
        await planes.client(1).produce(ORDERS, [b"a"])
        assert await planes[1].isr_proposals(LAG_S) == []
        await planes.stop(3)
        async with asyncio.TaskGroup() as tasks:
            sent = tasks.create_task(planes.client(1).produce(ORDERS, [b"b"]), name="produce")
            await planes.wait_log(2, [b"a", b"b"])
            clock.time_s += LAG_S + 1
            proposal = await planes.wait_proposal(1, (1, 2))
            assert await planes[1].isr_proposals(LAG_S) == [proposal]
            assert not sent.done()
            await planes[1].answer_proposals([IsrAnswer(ORDERS, None, is_granted=False)])
            assert await planes[1].isr_proposals(LAG_S) == [proposal]
            granted = await planes.grant(1, proposal)
        assert sent.result() == (1, 0)
        await planes.start(3)
        await planes.instruct(instruction(granted), 3)
        await planes.wait_log(3, [b"a", b"b"])
        await planes.grant(1, await planes.wait_proposal(1, ALL))
        assert (await planes.client(1).held())[0].isr == ALL
        assert await planes[1].isr_proposals(LAG_S) == []


async def test_a_replica_that_is_stopped_neither_leads_nor_follows() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, (1,))))
        await planes.client(1).produce(ORDERS, [b"a"])
        await planes.wait_log(2, [b"a"])
        stop = ReplicaStop(ORDERS, TOPIC_ID, 0, is_deleted=False)
        for _ in range(2):
            assert await planes[2].stop_replicas([stop]) == []
        await planes.client(1).produce(ORDERS, [b"b"])
        await planes.wait_log(3, [b"a", b"b"])
        assert await planes.client(2).log(ORDERS) == [LogRecord(0, b"a")]
        # After the same instruction again it is a follower.
        await planes.instruct(instruction(state(1, 0, (1,))), 2)
        await planes.wait_log(2, [b"a", b"b"])


async def test_a_replica_that_is_deleted_is_gone_whatever_its_epoch() -> None:
    async with Planes(1) as planes:
        await planes.instruct(instruction(state(1, 5, (1,)), replicas=(1,)))
        await planes.client(1).produce(ORDERS, [b"a"])
        stop = ReplicaStop(ORDERS, TOPIC_ID, -2, is_deleted=True)
        for _ in range(2):
            assert await planes[1].stop_replicas([stop]) == []
        assert await planes[1].replicas() == []
        await planes.instruct(instruction(state(1, 0, (1,)), replicas=(1,), topic_id="f" * 32))
        assert await planes.client(1).produce(ORDERS, [b"new"]) == (0, 0)


async def test_a_replica_whose_storage_fails_is_reported_as_failed() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)))
        await planes.client(1).produce(ORDERS, [b"a"])
        planes[1].fail_storage(ORDERS)
        assert await planes[1].replicas() == [HeldReplica(ORDERS, TOPIC_ID, 0, is_failed=True)]
        with pytest.raises(DataPlaneRefused, match="not led here"):
            await planes.client(1).produce(ORDERS, [b"b"])
        failed = [ReplicaError(ORDERS, STORAGE_ERROR)]
        assert await planes[1].become_leader([instruction(state(1, 1, ALL))]) == failed
        assert await planes[1].become_follower([instruction(state(2, 1, ALL))], {}) == failed
        await planes.instruct(instruction(state(2, 1, (2, 3))), 2, 3)
        assert await planes.client(2).produce(ORDERS, [b"c"]) == (1, 1)


async def test_a_disk_that_refuses_a_record_fails_the_replica(tmp_path: Path) -> None:
    async with Planes(1, lambda _: DirectoryStorage(tmp_path)) as planes:
        await planes.instruct(instruction(state(1, 0, (1,)), replicas=(1,)))
        (tmp_path / "records" / "orders").mkdir()
        (tmp_path / "records" / "orders" / "0").mkdir()
        with pytest.raises(DataPlaneRefused, match="orders-0: "):
            await planes.client(1).produce(ORDERS, [b"a"])
        assert await planes[1].replicas() == [HeldReplica(ORDERS, TOPIC_ID, 0, is_failed=True)]


async def test_after_a_restart_the_replicas_are_there_and_wait_for_instructions(
    tmp_path: Path,
) -> None:
    async with Planes(storage=lambda n: DirectoryStorage(tmp_path / str(n))) as planes:
        await planes.instruct(instruction(state(1, 3, ALL)))
        await planes.client(1).produce(ORDERS, [b"a"])
        await planes.stop(1)
        await planes.start(1)
        assert await planes[1].replicas() == [HeldReplica(ORDERS, TOPIC_ID, 3)]
        with pytest.raises(DataPlaneRefused, match="not led here"):
            await planes.client(1).produce(ORDERS, [b"b"])
        assert await planes[1].become_leader([instruction(state(1, 2, ALL))]) == [
            ReplicaError(ORDERS, STALE_EPOCH)
        ]
        await planes.instruct(instruction(state(1, 4, ALL)))
        assert await planes.client(1).produce(ORDERS, [b"b"]) == (1, 4)
        for number in ALL:
            await planes.wait_log(number, [b"a", b"b"])


async def test_a_process_that_starts_again_leads_nothing() -> None:
    async with Planes(1) as planes:
        await planes.instruct(instruction(state(1, 3, ALL)))
        await planes[1].stop()
        await planes[1].start()
        assert await planes[1].isr_proposals(LAG_S) == []
        assert [one.role for one in await planes.client(1).held()] == ["none"]


async def test_a_leader_at_another_address_is_found_again() -> None:
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)))
        await planes.client(1).produce(ORDERS, [b"a"])
        await planes.stop(1)
        planes.addresses[1], planes.addresses[2] = planes.addresses[2], planes.addresses[1]
        await planes.stop(2)
        await planes.start(1)
        await planes.instruct(instruction(state(1, 0, (1, 3))), 1)
        # The same epoch: only the address has changed.
        await planes.instruct(instruction(state(1, 0, (1, 3))), 3)
        assert await planes.client(2).produce(ORDERS, [b"b"]) == (1, 0)
        await planes.wait_log(3, [b"a", b"b"])


async def test_large_logs_come_in_several_frames() -> None:
    values = [b"%d" % number * 100 for number in range(3000)] + [b"\x00" * 500_000] * 3
    async with Planes(2) as planes:
        await planes.instruct(instruction(state(1, 0, (1,)), replicas=(1, 2)), 1)
        for start in range(0, 3000, 1000):
            await planes.client(1).produce(ORDERS, values[start : start + 1000])
        for value in values[3000:]:
            await planes.client(1).produce(ORDERS, [value])
        await planes.instruct(instruction(state(1, 0, (1,)), replicas=(1, 2)), 2)
        await planes.wait_log(2, values)
        consumed = await planes.client(1).consume(ORDERS, most=2)
        assert [record.value for record in consumed.records] == values[:2]


async def test_records_too_large_for_one_frame_are_refused() -> None:
    async with Planes(1) as planes:
        await planes.instruct(instruction(state(1, 0, (1,)), replicas=(1,)))
        with pytest.raises(DataPlaneRefused, match="at most 524288 bytes at once"):
            await planes.client(1).produce(ORDERS, [b"x" * 300_000] * 2)
        await planes.client(1).produce(ORDERS, [b"\x00" * 524_288])
        assert len((await planes.client(1).log(ORDERS))[0].value) == 524_288


async def test_large_records_of_many_partitions_come_in_several_frames() -> None:
    partitions = [TopicPartition("large", number) for number in range(24)]
    async with Planes(2) as planes:
        new = [instruction(state(1, 0, (1,)), one, replicas=(1, 2)) for one in partitions]
        assert await planes[1].become_leader(new) == []
        for one in partitions:
            await planes.client(1).produce(one, [b"x" * 500_000])
        assert await planes[2].become_follower(new, planes.addresses) == []

        async def has_all() -> bool:
            return all(one.end_offset == 1 for one in await planes.client(2).held())

        await eventually(has_all)


async def test_thousands_of_replicas_are_fetched_and_cost_nothing_when_idle() -> None:
    partitions = [TopicPartition("many", number) for number in range(5000)]
    async with Planes(2) as planes:
        new = [instruction(state(1, 0, (1,)), one, replicas=(1, 2)) for one in partitions]
        assert await planes[1].become_leader(new) == []
        assert await planes[2].become_follower(new, planes.addresses) == []
        # A follower is in sync once it has named its place: the last one has named all.
        found: set[TopicPartition] = set()

        async def all_proposed() -> bool:
            found.update(proposal.partition for proposal in await planes[1].isr_proposals(LAG_S))
            return len(found) == len(partitions)

        await eventually(all_proposed)
        answers = [IsrAnswer(one, state(1, 0, (1, 2), 1), is_granted=True) for one in partitions]
        await planes[1].answer_proposals(answers)
        assert await planes[1].isr_proposals(LAG_S) == []
        assert len(planes[1]._leaders._unsettled) == 0
        assert await planes.client(1).produce(partitions[4321], [b"a"]) == (0, 0)
        held = await planes.client(2).held()
        assert [one.partition for one in held] == partitions
        assert [one.end_offset for one in held if one.partition == partitions[4321]] == [1]


async def test_an_address_that_is_taken_is_one_clear_error() -> None:
    async with Planes(1) as planes:
        with pytest.raises(
            StartError, match=f"replicas at {planes.addresses[1]}: .*; see brokerServicePort"
        ):
            await planes.start(1)


async def test_a_malformed_frame_ends_its_connection() -> None:
    async with Planes(1) as planes:
        host, _, port = planes.addresses[1].rpartition(":")
        for frame in (
            b"\xff\xff\xff\xff",
            b"\x00\x00\x00\x04null",
            b"\x00\x00\x00\x02{}",
            b'\x00\x00\x00\x16{"api":"what","id":12}',
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(frame)
            try:
                async with asyncio.timeout(60):
                    assert await reader.read() == b""
            except ConnectionResetError:
                pass
            writer.close()
        assert await planes.client(1).held() == []


async def test_a_client_finds_its_broker_again() -> None:
    async with Planes(1) as planes:
        client = planes.client(1)
        assert await client.held() == []
        await planes.stop(1)
        with pytest.raises(DataPlaneUnreachable):
            await client.held()
        await planes.start(1)

        async def answered() -> bool:
            try:
                return await client.held() == []
            except DataPlaneError:
                return False

        assert await eventually(answered)


async def test_nothing_is_left_running() -> None:
    before = asyncio.all_tasks()
    async with Planes() as planes:
        await planes.instruct(instruction(state(1, 0, ALL)))
        await planes.client(1).produce(ORDERS, [b"a"])
    await eventually(lambda: asyncio.all_tasks() == before, what="no task left")
