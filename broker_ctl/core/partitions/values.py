"""Values for partitions, topics and brokers: names, stages, rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from broker_ctl.errors import InvalidName, InvalidTransition

# Values for partitions, topics and brokers.
#
# Broker ids are the numbers of the ``brokerId`` setting. There is at most one replica of a
# partition on a broker, so that the broker's id is the replica's too (docs: kafka-paths).


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


# Names of replicated topics and of their partitions (docs: kafka-paths).
#
# A replicated topic is one step of a znode path, unlike the topics of bundles, whose complete
# names have slashes.


# Kafka's rule; 249 characters leave room for suffixes in file names.
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Ours are 32 hexadecimal digits, Kafka's are UUIDs in base64.
_TOPIC_ID: Final = re.compile(r"[0-9a-f]{32}|[a-zA-Z0-9_-]{22}")


class TopicPartition(NamedTuple):
    """One partition of a replicated topic; a tuple, because a cluster has hundreds of thousands."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def validate_topic(name: str) -> str:
    """Return the name if it is valid for a replicated topic.

    Raises:
        InvalidName: the name is empty, too long, ``.`` or ``..``, or has an invalid character.
    """
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise InvalidName(
            f"{name[:260]!r}: a replicated topic is 1 to 249 of letters, digits and ._-"
        )
    return name


def validate_topic_id(text: str) -> str:
    """Return the text if it has the form of a topic id.

    Raises:
        InvalidName: it has another form.
    """
    if not _TOPIC_ID.fullmatch(text):
        raise InvalidName(
            f"{text[:40]!r}: a topic_id is 32 of 0-9a-f, or Kafka's 22 of letters, digits and _-"
        )
    return text


# Stages of partitions and of replicas (docs: kafka-state-machines).
#
# The controller moves replicas from stage to stage. The table lists the stages that may precede
# each stage; any other transition is an error of the controller. The stage of a partition is not
# stored: it follows from the partition's state and the live brokers whenever it is needed.


class PartitionStage(StrEnum):
    """NEW: assigned, but never had a leader. OFFLINE: had a leader, but none is live now."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaStage(StrEnum):
    """DELETION_INELIGIBLE: to be deleted, but its broker is gone or failed to delete it."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


_R = ReplicaStage

REPLICA_PREDECESSORS: Final[Mapping[ReplicaStage, frozenset[ReplicaStage]]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}


def step_replica(stage: ReplicaStage, to: ReplicaStage, replica: object = "") -> ReplicaStage:
    """Return the requested next stage if the transition is allowed.

    Raises:
        InvalidTransition: the transition is not allowed; the message names the replica.
    """
    if stage not in REPLICA_PREDECESSORS[to]:
        raise InvalidTransition("replica", stage, to, str(replica))
    return to


# The controller's rules, from the settings.


@dataclass(frozen=True, slots=True)
class ControllerRules:
    """The current settings of the controller.

    Attributes:
        is_unclean_allowed, min_isr: defaults for topics without their own.
        acknowledge_s: seconds within which a broker must acknowledge an instruction; afterwards it
            counts as dead if another replica can lead.
        max_queued: maximum number of one broker's instructions in ZKQueue; more are replaced by one
            full instruction.
        is_rebalancing: whether leadership returns to preferred replicas automatically.
        imbalance_percent: share of a broker's preferred partitions led elsewhere above which the
            broker gets leaderships back.
        imbalance_check_s: interval of that check.
    """

    is_unclean_allowed: bool = False
    min_isr: int = 1
    acknowledge_s: float = 10.0
    max_queued: int = 64
    is_rebalancing: bool = True
    imbalance_percent: float = 10.0
    imbalance_check_s: float = 300.0

    def with_defaults(self, rules: TopicRules) -> TopicRules:
        """Return the topic's own rules, completed by the settings."""
        is_allowed = rules.is_unclean_allowed
        return TopicRules(
            self.is_unclean_allowed if is_allowed is None else is_allowed,
            rules.min_isr or self.min_isr,
        )


# Transitions of partitions, as rows of history (docs: kafka-state-machines).


class Transition(NamedTuple):
    """A state change by the controller.

    Attributes:
        leader, former: broker id, or `NO_LEADER`; the leader after and before.
        reason: name of the event that caused it.
    """

    partition: TopicPartition
    before: PartitionStage
    after: PartitionStage
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    reason: str
    former: int = NO_LEADER
