"""Values for partitions, topics and brokers.

Broker ids are the numbers of the ``brokerId`` setting. There is at most one replica of a partition
on a broker, so that the broker's id is the replica's too (docs: kafka-paths).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# Used as the leader's broker id if a partition has no leader.
NO_LEADER: Final = -1
# Used as the version of a node that does not exist yet.
NO_VERSION: Final = -1


class LeaderAndIsr(NamedTuple):
    """The leader and the in-sync replicas of a partition: ``leaderAndISR`` (docs: kafka-paths).

    Attributes:
        leader: broker id, or `NO_LEADER`.
        leader_epoch: grows with every change by the controller, also with one of the ISR alone.
        isr: broker ids of the in-sync replicas, ascending. Never empty: when all are dead, the last
            of them are kept, so that a clean election is possible when one comes back (docs:
            kafka-isr).
        controller_epoch: of the controller that wrote it last, or that elected the leader which
            wrote it.
        is_recovering: the leader was elected from outside the ISR: records may have been lost.
        version: of the node, used for each compare-and-set; it grows by exactly one.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False
    version: int = NO_VERSION


class Assignment(NamedTuple):
    """The assigned replicas of a partition (AR), in order: the first one is preferred.

    During a reassignment ``replicas`` is the union of both sets; ``adding`` and ``removing``
    distinguish them (docs: kafka-procedures).
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """Return whether a reassignment is in progress."""
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
        topic_id: 22 characters of base64, random, or 32 hexadecimal digits of an earlier release:
            distinguishes a topic from one that had the same name before (C1).
        partitions: by number.
        version: of the node.
    """

    topic_id: str
    partitions: Mapping[int, Assignment]
    version: int = NO_VERSION


@dataclass(frozen=True, slots=True)
class TopicRules:
    """A topic's rules of elections.

    Attributes:
        is_unclean_allowed: ``unclean.leader.election.enable``: whether a replica out of sync may
            lead if none in sync is alive; None: the setting ``uncleanLeaderElectionEnable``
            applies.
        min_isr: ``min.insync.replicas``: with fewer in-sync replicas nothing is committed; 0: the
            setting ``minInSyncReplicas`` applies.
    """

    is_unclean_allowed: bool | None = None
    min_isr: int = 0


# Kafka's keys in the configuration of a topic.
UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"
# Texts by these keys; None removes the topic's own value, so that the setting applies.
RuleChanges = Mapping[str, str | None]
DEFAULT_RULES: Final = TopicRules()
# For a topic with an unreadable configuration, which may have forbidden unclean elections.
UNREADABLE_RULES: Final = TopicRules(is_unclean_allowed=False)


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that is registered under /brokers/ids.

    Attributes:
        broker_id: the number.
        epoch: czxid of the registration; it changes when the broker registers again.
        host, port: of the broker process, for clients and for followers.
        daemon: name of the daemon beside it, ``host:port`` of its HTTP server.
        web_url: address of that daemon for instructions.
        rack: where it is; brokers in one rack may fail together. Empty: unknown.
    """

    broker_id: int
    epoch: int
    host: str
    port: int
    daemon: str = ""
    web_url: str = ""
    rack: str = ""

    @property
    def address(self) -> str:
        """``host:port`` of the broker process."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Two readings of the live brokers, compared by id and epoch (KIP-380).

    Attributes:
        bounced: brokers with another epoch: they died and came back between the readings.
    """

    new: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    bounced: frozenset[int] = frozenset()
    live: Mapping[int, LiveBroker] = field(default_factory=dict)

    @classmethod
    def between(
        cls, before: Mapping[int, LiveBroker], after: Mapping[int, LiveBroker]
    ) -> "BrokersChanged":
        """Compare two readings."""
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
