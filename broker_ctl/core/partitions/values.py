"""What is known of a partition, of its topic and of a broker, as values.

Broker ids are the numbers of the ``brokerId`` setting. There is at most one replica of a partition
on a broker, so that the broker's id is the replica's too (docs: kafka-paths).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# In place of a leader's broker id.
NO_LEADER: Final = -1
# In place of a node's version, where the node does not exist yet.
NO_VERSION: Final = -1


class LeaderAndIsr(NamedTuple):
    """Who leads a partition, and who is in sync: ``leaderAndISR`` (docs: kafka-paths).

    Attributes:
        leader: broker id, or `NO_LEADER`.
        leader_epoch: grows with every change that the controller makes, also of the ISR alone.
        isr: broker ids of the replicas in sync, ascending. Never empty: where all are dead, the
            last of them are kept, so that a clean election is possible when one comes back (docs:
            kafka-isr).
        controller_epoch: of the controller that wrote it last, or that appointed the leader
            which did.
        is_recovering: the leader was elected out of the ISR: records may have been lost.
        version: of the node, which is the token of each compare-and-set; it grows by exactly one.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False
    version: int = NO_VERSION


class Assignment(NamedTuple):
    """The assigned replicas of a partition (AR), in order: the first one is preferred.

    While a reassignment is under way ``replicas`` holds the union of both sets, and ``adding`` and
    ``removing`` tell them apart (docs: kafka-procedures).
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment (ORS)."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment (TRS)."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The node of a topic.

    Attributes:
        topic_id: 32 hexadecimal digits, random: distinguishes a topic from one that had the
            same name before (C1).
        partitions: by number.
        version: of the node.
    """

    topic_id: str
    partitions: Mapping[int, Assignment]
    version: int = NO_VERSION


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What a topic asks of its elections.

    Attributes:
        is_unclean_allowed: ``unclean.leader.election.enable``: a replica out of sync may lead
            where no other lives; None means that the topic does not say, and the setting
            ``uncleanLeaderElectionEnable`` holds.
        min_isr: ``min.insync.replicas``: with fewer in sync nothing is committed; 0 means that
            the topic does not say, and the setting ``minInSyncReplicas`` holds.
    """

    is_unclean_allowed: bool | None = None
    min_isr: int = 0


# What Kafka calls them in the configuration of a topic.
UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"
# Texts by these keys; None takes the topic's own away, so that the setting holds.
RuleChanges = Mapping[str, str | None]
DEFAULT_RULES: Final = TopicRules()
# Of a topic whose configuration cannot be read: it may have forbidden what loses records.
UNREADABLE_RULES: Final = TopicRules(is_unclean_allowed=False)


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that is registered under /brokers/ids.

    Attributes:
        broker_id: the number.
        epoch: czxid of the registration: another one means that it was away meanwhile.
        host, port: of the broker process, for clients and for followers.
        daemon: name of the daemon beside it, ``host:port`` of its HTTP server.
        web_url: where that daemon takes instructions.
    """

    broker_id: int
    epoch: int
    host: str
    port: int
    daemon: str = ""
    web_url: str = ""

    @property
    def address(self) -> str:
        """``host:port`` of the broker process."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Two readings of the live brokers, held against each other by id and epoch (KIP-380).

    Attributes:
        bounced: those that have another epoch: dead and back within one look.
    """

    new: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    bounced: frozenset[int] = frozenset()
    live: Mapping[int, LiveBroker] = field(default_factory=dict)

    @classmethod
    def between(
        cls, before: Mapping[int, LiveBroker], after: Mapping[int, LiveBroker]
    ) -> "BrokersChanged":
        """What became of whom."""
        return cls(
            new=frozenset(after.keys() - before.keys()),
            dead=frozenset(before.keys() - after.keys()),
            bounced=frozenset(
                broker_id
                for broker_id in before.keys() & after.keys()
                if before[broker_id].epoch != after[broker_id].epoch
            ),
            live=dict(after),
        )
