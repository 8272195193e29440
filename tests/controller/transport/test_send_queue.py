"""Updates that wait for a broker, and the instructions that are made of them."""

import tracemalloc

from broker_ctl.codec import decode_object
from broker_ctl.controller.transport.http import SendQueue
from broker_ctl.controller.transport.messages import (
    MAX_REQUEST_BYTES,
    BrokerRequests,
    InstructionEncoder,
    PartitionUpdate,
    encode_update,
)
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.instructions import (
    Instruction,
    ReplicaSpan,
    ReplicaState,
    ReplicaStop,
    digest_of,
)
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)

BROKER = LiveBroker(7, 70, "h7", 6650)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def state_of(partition: TopicPartition, epoch: int = 0) -> ReplicaState:
    state = LeaderAndIsr(7, epoch, (7, 8), 3, version=4)
    return ReplicaState(partition, "id-" + partition.topic, state, (7, 8), 2)


def stop_of(partition: TopicPartition) -> ReplicaStop:
    return ReplicaStop(partition, "old-id", 5, is_deleted=True)


def encoder_for(*topics: str) -> InstructionEncoder:
    context = Context(3)
    context.put_brokers({7: BROKER})
    for name in topics:
        context.put_topic(name, TopicAssignment(f"id-{name}", {0: Assignment((7, 8))}))
    return InstructionEncoder(1, context)


def parsed(bodies: object) -> list[Instruction]:
    return [Instruction.parse(decode_object(body)) for _, body in bodies]  # type: ignore[attr-defined]


def test_of_a_partition_the_newest_update_goes() -> None:
    queue = SendQueue()
    queue.put({P0: PartitionUpdate("id-t", b"first"), P1: PartitionUpdate("id-t", b"other")})
    queue.put({P0: PartitionUpdate("id-t", b"second")})
    batch = queue.pop()
    assert batch is not None
    assert batch.requests == {
        P0: PartitionUpdate("id-t", b"second"),
        P1: PartitionUpdate("id-t", b"other"),
    }
    assert queue.pop() is None


def test_a_stop_goes_before_the_update_that_revives_the_replica() -> None:
    queue = SendQueue()
    queue.put({P0: stop_of(P0)})
    queue.put({P1: PartitionUpdate("id-t", b"other")})
    queue.put({P0: PartitionUpdate("id-t", b"new")})
    first, second = queue.pop(), queue.pop()
    assert first is not None
    assert second is not None
    assert first.requests == {P0: stop_of(P0), P1: PartitionUpdate("id-t", b"other")}
    assert second.requests == {P0: PartitionUpdate("id-t", b"new")}


def test_everything_takes_the_place_of_what_waits_but_for_the_ends() -> None:
    queue = SendQueue()
    queue.put({P0: PartitionUpdate("id-t", b"old")})
    queue.put({P1: stop_of(P1)})
    queue.put_full({P0: PartitionUpdate("id-t", b"new")})
    first, second = queue.pop(), queue.pop()
    assert first is not None
    assert second is not None
    assert (first.requests, first.is_full) == ({P0: PartitionUpdate("id-t", b"new")}, True)
    assert (second.requests, second.is_full) == ({P1: stop_of(P1)}, False)


def test_updates_behind_everything_go_in_an_instruction_of_their_own() -> None:
    queue = SendQueue()
    queue.put_full({P0: PartitionUpdate("id-t", b"all")})
    queue.put({P0: PartitionUpdate("id-t", b"newer")})
    first, second = queue.pop(), queue.pop()
    assert first is not None
    assert second is not None
    assert (first.is_full, second.is_full) == (True, False)


def test_an_instruction_says_what_the_updates_say() -> None:
    requests: BrokerRequests = {P0: encode_update(state_of(P0)), P1: stop_of(P1)}
    (instruction,) = parsed(encoder_for("t").encode(BROKER, requests))
    assert instruction == Instruction(
        controller=1,
        controller_epoch=3,
        broker=7,
        broker_epoch=70,
        brokers={7: "h7:6650"},
        partitions=[state_of(P0)],
        stops=[stop_of(P1)],
    )


def test_updates_of_a_topic_that_has_ended_meanwhile_are_left_out() -> None:
    gone = TopicPartition("gone", 0)
    requests: BrokerRequests = {
        gone: encode_update(state_of(gone)),
        P0: encode_update(state_of(P0)),
    }
    (instruction,) = parsed(encoder_for("t").encode(BROKER, requests))
    assert [state.partition for state in instruction.partitions] == [P0]


def test_a_full_instruction_that_is_too_large_is_split_into_several_over_all_names() -> None:
    names = [f"topic-{number:06d}" for number in range(9000)]
    replicas = [TopicPartition(name, 0) for name in names]
    requests: BrokerRequests = {each: encode_update(state_of(each)) for each in reversed(replicas)}
    bodies = list(encoder_for(*names).encode_full(BROKER, requests))
    assert len(bodies) > 1
    assert max(len(body) for _, body in bodies) <= MAX_REQUEST_BYTES + 2048
    instruction = parsed(bodies)
    assert [state.partition for each in instruction for state in each.partitions] == replicas
    for name in ("a", "topic-000000", "topic-004500", "topic-004500x", "z"):
        of = TopicPartition(name, 0)
        judges = [each for each in instruction if each.covered_partitions([of])]
        assert len(judges) == 1, "each name is judged by exactly one of them"
        named = {state.partition for state in judges[0].partitions}
        assert (of in named) == (of in requests)


def test_a_broker_without_replicas_gets_a_full_instruction_without_partitions() -> None:
    (instruction,) = parsed(encoder_for().encode_full(BROKER, {}))
    assert instruction.is_full
    assert not instruction.partitions
    assert instruction.covered_partitions([P0])


def test_an_update_that_cannot_be_compared_has_no_digest_that_a_broker_could_have() -> None:
    encoder = encoder_for("t")
    requests: BrokerRequests = {P0: encode_update(state_of(P0))}
    parts = list(encoder.split_full(requests))
    (instruction,) = parsed([(None, encoder.encode_digests(BROKER, parts))])
    # Not that of a broker without any replica either.
    assert instruction.spans == (ReplicaSpan(None, None, ""),)
    assert digest_of([]) != ""


def test_an_update_of_a_topic_is_not_sent_about_another_by_its_name() -> None:
    requests: BrokerRequests = {P0: encode_update(state_of(P0, epoch=7)), P1: stop_of(P1)}
    encoder = encoder_for()
    encoder._context.put_topic("t", TopicAssignment("id-of-another", {0: Assignment((7, 8))}))
    for encode in (encoder.encode, encoder.encode_full):
        (instruction,) = parsed(encode(BROKER, requests))
        assert list(instruction.partitions) == []
        assert [stop.partition for stop in instruction.stops] == [P1]


def test_a_waiting_update_has_the_size_of_its_text() -> None:
    tracemalloc.start()
    try:
        updates = [encode_update(state_of(TopicPartition("t", number))) for number in range(500)]
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # orjson's own result keeps 4 kB.
    assert kept_bytes / len(updates) < 1000
