"""What waits for a broker, and the instructions that are made of it."""

from broker_ctl.codec import decode_object
from broker_ctl.controller.transport.messages import (
    MAX_BODY_BYTES,
    InstructionEncoder,
    Lot,
    PartitionRequest,
    entry,
)
from broker_ctl.controller.transport.send_queue import SendQueue
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import Instruction, ReplicaState, ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
)

BROKER = LiveBroker(7, 70, "h7", 6650)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def state_of(partition: TopicPartition, epoch: int = 0) -> ReplicaState:
    state = LeaderAndIsr(7, epoch, (7, 8), 3, version=4)
    return ReplicaState(partition, "id-" + partition.topic, state, (7, 8), 2)


def stop_of(partition: TopicPartition) -> ReplicaStop:
    return ReplicaStop(partition, "old-id", 5, is_deleted=True)


def writer_for(*topics: str) -> InstructionEncoder:
    context = Context(3)
    context.put_brokers({7: BROKER})
    for name in topics:
        context.put_topic(name, TopicAssignment(f"id-{name}", {0: Assignment((7, 8))}))
    return InstructionEncoder(1, context)


def parsed(bodies: object) -> list[Instruction]:
    return [Instruction.parse(decode_object(body)) for _, body in bodies]  # type: ignore[attr-defined]


def test_of_a_partition_the_newest_letter_goes() -> None:
    parcels = SendQueue()
    parcels.put({P0: PartitionRequest("id-t", b"first"), P1: PartitionRequest("id-t", b"other")})
    parcels.put({P0: PartitionRequest("id-t", b"second")})
    parcel = parcels.take()
    assert parcel is not None
    assert parcel.lot == {
        P0: PartitionRequest("id-t", b"second"),
        P1: PartitionRequest("id-t", b"other"),
    }
    assert parcels.take() is None


def test_an_end_goes_before_the_letter_that_revives_the_replica() -> None:
    parcels = SendQueue()
    parcels.put({P0: stop_of(P0)})
    parcels.put({P1: PartitionRequest("id-t", b"other")})
    parcels.put({P0: PartitionRequest("id-t", b"new")})
    first, second = parcels.take(), parcels.take()
    assert first is not None
    assert second is not None
    assert first.lot == {P0: stop_of(P0), P1: PartitionRequest("id-t", b"other")}
    assert second.lot == {P0: PartitionRequest("id-t", b"new")}


def test_everything_takes_the_place_of_what_waits_but_for_the_ends() -> None:
    parcels = SendQueue()
    parcels.put({P0: PartitionRequest("id-t", b"old")})
    parcels.put({P1: stop_of(P1)})
    parcels.put_full({P0: PartitionRequest("id-t", b"new")})
    first, second = parcels.take(), parcels.take()
    assert first is not None
    assert second is not None
    assert (first.lot, first.is_full) == ({P0: PartitionRequest("id-t", b"new")}, True)
    assert (second.lot, second.is_full) == ({P1: stop_of(P1)}, False)


def test_letters_behind_everything_go_in_an_instruction_of_their_own() -> None:
    parcels = SendQueue()
    parcels.put_full({P0: PartitionRequest("id-t", b"all")})
    parcels.put({P0: PartitionRequest("id-t", b"newer")})
    first, second = parcels.take(), parcels.take()
    assert first is not None
    assert second is not None
    assert (first.is_full, second.is_full) == (True, False)


def test_an_instruction_says_what_the_letters_say() -> None:
    lot: Lot = {P0: entry(state_of(P0)), P1: stop_of(P1)}
    (told,) = parsed(writer_for("t").instructions(BROKER, lot))
    assert told == Instruction(
        controller=1,
        controller_epoch=3,
        broker=7,
        broker_epoch=70,
        brokers={7: "h7:6650"},
        partitions=[state_of(P0)],
        stops=[stop_of(P1)],
    )


def test_letters_of_a_topic_that_has_ended_meanwhile_are_left_out() -> None:
    gone = TopicPartition("gone", 0)
    lot: Lot = {gone: entry(state_of(gone)), P0: entry(state_of(P0))}
    (told,) = parsed(writer_for("t").instructions(BROKER, lot))
    assert [state.partition for state in told.partitions] == [P0]


def test_what_is_too_much_for_one_instruction_comes_in_several_that_span_every_name() -> None:
    names = [f"topic-{number:06d}" for number in range(9000)]
    replicas = [TopicPartition(name, 0) for name in names]
    lot: Lot = {each: entry(state_of(each)) for each in reversed(replicas)}
    bodies = list(writer_for(*names).full_instructions(BROKER, lot))
    assert len(bodies) > 1
    assert max(len(body) for _, body in bodies) <= MAX_BODY_BYTES
    told = parsed(bodies)
    assert [state.partition for each in told for state in each.partitions] == replicas
    for name in ("a", "topic-000000", "topic-004500", "topic-004500x", "z"):
        of = TopicPartition(name, 0)
        judges = [each for each in told if each.told_entirely([of])]
        assert len(judges) == 1, "each name is judged by exactly one of them"
        named = {state.partition for state in judges[0].partitions}
        assert (of in named) == (of in lot)


def test_a_broker_without_replicas_is_told_so() -> None:
    (told,) = parsed(writer_for().full_instructions(BROKER, {}))
    assert told.is_full
    assert not told.partitions
    assert told.told_entirely([P0])


def test_a_letter_of_a_topic_is_not_sent_about_another_by_its_name() -> None:
    lot: Lot = {P0: entry(state_of(P0, epoch=7)), P1: stop_of(P1)}
    writer = writer_for()
    writer._context.put_topic("t", TopicAssignment("id-of-another", {0: Assignment((7, 8))}))
    for make in (writer.instructions, writer.full_instructions):
        (told,) = parsed(make(BROKER, lot))
        assert list(told.partitions) == []
        assert [stop.partition for stop in told.stops] == [P1]
