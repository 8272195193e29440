"""The partitions of a run: which there are, on whom, and their nodes, laid in batches.

One broker leads them all; the other replicas lie evenly on the others, so that each of these will
lead as many as any other when it dies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import encode_state, encode_topic
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.store.tree import lay

# As in the measurements of Kafka 1.1: 2,000 topics of 50 partitions each.
PARTITIONS_OF_A_TOPIC: Final = 50
BROKERS: Final = 7
VICTIM: Final = BROKERS


@dataclass(frozen=True, slots=True)
class Layout:
    """Topics ``t-0`` and so on, with three replicas of each partition.

    Attributes:
        victim: broker id of who leads them all.
        others: broker ids; each partition has two of them besides.
    """

    partitions: int
    victim: int
    others: Sequence[int]

    @property
    def all(self) -> Iterator[TopicPartition]:
        for number in range(self.partitions):
            topic, partition = divmod(number, PARTITIONS_OF_A_TOPIC)
            yield TopicPartition(f"t-{topic}", partition)

    @property
    def topics(self) -> Iterator[str]:
        for number in range(-(-self.partitions // PARTITIONS_OF_A_TOPIC)):
            yield f"t-{number}"

    def replicas(self, number: int) -> tuple[int, ...]:
        """Replicas of the partition with this number, the preferred one first."""
        pairs = list(permutations(self.others, 2))
        return (self.victim, *pairs[number % len(pairs)])

    def assignments(self) -> Iterator[tuple[str, TopicAssignment]]:
        """Topic by topic."""
        for number, topic in enumerate(self.topics):
            first = number * PARTITIONS_OF_A_TOPIC
            count = min(PARTITIONS_OF_A_TOPIC, self.partitions - first)
            rows = {row: Assignment(self.replicas(first + row)) for row in range(count)}
            yield topic, TopicAssignment(f"{number:032x}", rows)

    def states(self) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
        """States of partitions as a controller writes them while all brokers live."""
        for number, of in enumerate(self.all):
            isr = tuple(sorted(self.replicas(number)))
            yield of, LeaderAndIsr(self.victim, 0, isr, 1)


def cluster_layout(partitions: int, brokers: int = BROKERS) -> Layout:
    """The last broker is the victim and leads all; the others have the other replicas."""
    return Layout(partitions, brokers, range(1, brokers))


async def lay_topics(store: ZooKeeperStore, layout: Layout) -> None:
    """The nodes of the topics, as an operator writes them; a controller makes all others."""
    await store.create(paths.TOPICS, make_parents=True)
    await lay(
        store,
        (
            (paths.topic(topic), encode_topic(assignment))
            for topic, assignment in layout.assignments()
        ),
    )


async def lay_states(store: ZooKeeperStore, layout: Layout) -> None:
    """Everything below the topics, in place of a controller."""
    await lay(store, ((paths.partition(of), b"") for of in layout.all))
    await lay(
        store,
        ((paths.leader_and_isr(of), encode_state(state)) for of, state in layout.states()),
    )
