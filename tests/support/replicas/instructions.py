"""Instructions of a controller as tests write them."""

from collections.abc import Mapping, Sequence

from broker_ctl.codec import encode
from broker_ctl.core.partitions.instructions import (
    Instruction,
    ReplicaSpan,
    ReplicaState,
    ReplicaStop,
    compared_row,
    digest_of,
)
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import encode_state, encode_topic

BROKERS = {1: "h1:6650", 2: "h2:6650", 3: "h3:6650"}


def topic_id(name: str, life: int = 1) -> str:
    """The id of a topic in its first life, or in the next after a deletion."""
    return f"{name.encode().hex()[:24]:0<31}{life}"


def named(text: str) -> TopicPartition:
    """Partition 0 of topic t for ``t-0``."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def replica_state(
    partition: str,
    leader: int,
    epoch: int = 0,
    *,
    life: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    replicas: Sequence[int] = (1, 2, 3),
    version: int = 0,
) -> ReplicaState:
    """The state of a partition in an instruction."""
    where = named(partition)
    state = LeaderAndIsr(leader, epoch, tuple(isr), 1, version=version)
    return ReplicaState(where, topic_id(where.topic, life), state, tuple(replicas))


def stop(partition: str, epoch: int = 0, *, life: int = 1, is_deleted: bool = False) -> ReplicaStop:
    """The end of a replica in an instruction."""
    where = named(partition)
    return ReplicaStop(where, topic_id(where.topic, life), epoch, is_deleted)


def held(partition: str, epoch: int = 0, *, life: int = 1) -> HeldReplica:
    """A replica that a broker process has on disk."""
    where = named(partition)
    return HeldReplica(where, topic_id(where.topic, life), epoch)


def instruct(
    *updates: ReplicaState | ReplicaStop,
    broker: int = 1,
    broker_epoch: int,
    controller_epoch: int = 1,
    is_full: bool = False,
    after: str | None = None,
    until: str | None = None,
    spans: Sequence[ReplicaSpan] = (),
    brokers: Mapping[int, str] = BROKERS,
) -> Instruction:
    """An instruction with these states and ends of replicas, or with the digests of spans."""
    return Instruction(
        controller=9,
        controller_epoch=controller_epoch,
        broker=broker,
        broker_epoch=broker_epoch,
        is_full=is_full,
        brokers=brokers,
        partitions=[update for update in updates if isinstance(update, ReplicaState)],
        stops=[update for update in updates if isinstance(update, ReplicaStop)],
        after=_end(after),
        until=_end(until),
        spans=spans,
    )


def span_of(
    *states: ReplicaState, after: str | None = None, until: str | None = None
) -> ReplicaSpan:
    """The span in which a controller has these states."""
    digest = digest_of([encode(compared_row(each)) for each in states])
    return ReplicaSpan(_end(after), _end(until), digest)


def _end(name: str | None) -> TopicPartition | None:
    return None if name is None else named(name)


async def put_topic(
    store: MetadataStore,
    name: str,
    *replicas: Sequence[int],
    life: int = 1,
) -> None:
    """Write the node of a topic, or replace it; one list of replicas for each partition."""
    partitions = {number: Assignment(tuple(each)) for number, each in enumerate(replicas)}
    data = encode_topic(TopicAssignment(topic_id(name, life), partitions))
    path = paths.topic(name)
    if await store.exists(path) is None:
        await store.create(path, data, make_parents=True)
    else:
        await store.set(path, data)


async def put_state(store: MetadataStore, partition: str, state: LeaderAndIsr) -> LeaderAndIsr:
    """Write a partition's state; return it with the version of its node."""
    path = paths.leader_and_isr(named(partition))
    if await store.exists(path) is None:
        node = await store.create(path, encode_state(state), make_parents=True)
        return state._replace(version=node.stat.version)
    return state._replace(version=(await store.set(path, encode_state(state))).version)


async def elect_controllers(store: MetadataStore, epoch: int) -> None:
    """Write the epoch of elections as controllers do, until it is ``epoch``."""
    path = paths.CONTROLLER_ELECTION.epoch_path
    stat = await store.exists(path)
    if stat is None:
        stat = (await store.create(path, b"0", make_parents=True)).stat
    while stat.version < epoch:
        stat = await store.set(path, b"")
