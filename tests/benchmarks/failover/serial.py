"""The peer: the procedure of Kafka's design v3 as written, one request after the other.

``change_leaders``: for each partition the ISR is read, the new leader is written, and a node is
put into the queue of each broker that is to hear of it. What the brokers then do is not counted.
"""

import time
from typing import Final

from broker_ctl import codec
from broker_ctl.core.partitions.instructions import Instruction, ReplicaState
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import decode_state, encode_state
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.failover.layout import Layout, lay_states, lay_topics

PARTITIONS: Final = 500
_VICTIM: Final = 7
_OTHERS: Final = (1, 2, 3, 4, 5, 6)
_TOPIC_ID: Final = "0" * 32


async def measure_serial(store: ZooKeeperStore) -> float:
    """Seconds for one partition, over `PARTITIONS` of them; ``store`` has a chroot of its own."""
    layout = Layout(PARTITIONS, _VICTIM, _OTHERS)
    await lay_topics(store, layout)
    await lay_states(store, layout)
    for broker in _OTHERS:
        await store.create(paths.queue(broker), make_parents=True)
    began_s = time.perf_counter()
    for number, of in enumerate(layout.all):
        await _change_leader(store, number, of, layout.replicas(number))
    return (time.perf_counter() - began_s) / PARTITIONS


async def _change_leader(
    store: ZooKeeperStore, number: int, of: TopicPartition, replicas: tuple[int, ...]
) -> None:
    path = paths.leader_and_isr(of)
    node = await store.get(path)
    assert node is not None
    state = decode_state(node)
    isr = tuple(broker for broker in state.isr if broker != state.leader)
    leader = next(broker for broker in replicas if broker in isr)
    state = state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)
    await store.set(path, encode_state(state), node.stat.version)
    update = ReplicaState(of, _TOPIC_ID, state, replicas)
    for broker in isr:
        instruction = Instruction(1, 1, broker, 1, partitions=[update])
        payload = codec.encode(instruction.to_row())
        await store.create(paths.queued(broker, number), payload)
