"""What rooms of different floors need of each other, as protocols that `daemon.py` wires."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker_ctl.core.cluster.decisions import Decision
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Command
from broker_ctl.core.model.names import PERSISTENT, Namespace
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.transitions import Transition
from broker_ctl.core.partitions.values import RuleChanges, TopicRules

# The answer to an order: plain JSON values.
Reply = Mapping[str, Any]
# Broker ids by number of a partition, and by partition.
Replicas = Mapping[int, tuple[int, ...]]
Targets = Mapping[TopicPartition, tuple[int, ...]]


class CommandHandler(Protocol):
    """A broker that obeys: this one, or another one behind HTTP."""

    async def handle(self, command: Command) -> Reply:
        """Carry an order out.

        Raises:
            PeerUnreachable: no answer in time; whether it was carried out is unknown.
            PeerRefused: the broker said no, with the kind of error that it met.
        """


class Placement(Protocol):
    """Who receives a bundle that nobody owns; only the leader can say."""

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """The broker id.

        ``domain`` is that of the topic which is asked for.

        Raises:
            NoBroker: nobody may receive it.
            NoLeader: this broker does not lead (any more).
        """


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which decisions are asked for, ``result`` an `Outcome.result`; None: whatever it is.

    Attributes:
        kind: of the decision: ``transfer``, ``split`` and so on.
        broker: one that the decision is about.
        bundle: one that the decision is about.
        within_s: not older than this.
        limit: at most so many, the newest.
    """

    kind: str | None = None
    broker: str | None = None
    bundle: str | None = None
    within_s: float | None = None
    limit: int = 100
    result: str | None = None


class AdminOperations(Protocol):
    """Plans, drains and the history of decisions, at the leader; answers are plain JSON values."""

    async def plan(self, *, is_verbose: bool) -> Reply:
        """What the next cycle would do, and what that would reach; nothing is done."""

    async def plan_of_file(self, file: PlanFile) -> Reply:
        """What of a placement plan can be done now; once it is approved it is in force."""

    async def approve(self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False) -> Reply:
        """Have a plan carried out that `plan` or `plan_of_file` has told of.

        Raises:
            PlanMissing, OrderConflict: it is not known (any more); it is empty, or another is open.
        """

    async def plans(self) -> list[dict[str, Any]]:
        """The plan that is carried out, or the last one that was."""

    async def stop_plan(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Reply:
        """Begin nothing more of an approved plan.

        Raises:
            PlanMissing, OrderConflict: no such plan was approved; it is over.
        """

    def drains(self) -> list[dict[str, Any]]:
        """How far each drain has come."""

    async def drain(
        self, broker_id: str, who: str, why: str, *, is_forced: bool, is_dry_run: bool = False
    ) -> Reply:
        """Empty a broker, and let it receive nothing; how far that is.

        A dry run writes nothing, and answers as `core.drain_forecast.DrainForecast` tells it.

        Raises:
            OrderConflict: nobody else could receive anything, or the others have no room for it.
        """

    async def undrain(self, broker_id: str) -> bool:
        """Let a broker receive again; false where it was not drained."""

    def history(self, wanted: HistoryFilter) -> list[dict[str, Any]]:
        """The newest decisions of this leader with what came of them, newest first."""


class BalancerAdmin(Protocol):
    """What the surface may ask of a broker while it leads."""

    @property
    def operations(self) -> AdminOperations:
        """Plans, drains and history.

        Raises:
            NoLeader: this broker does not lead.
        """

    def overview(self) -> Mapping[str, Any]:
        """Brokers, bundles, imbalance, moves and settings of the loop, as plain JSON values."""

    def explain(self, subject: str) -> Mapping[str, Any]:
        """What the leader knows of a broker id or of a bundle, and what it last decided on it.

        Raises:
            InvalidName: neither a live broker nor a bundle.
        """

    async def move(
        self, bundle: Bundle, destination: str, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Transfer a bundle by order of an operator; returns when it is served there.

        A dry run moves nothing; either way the answer says from where: ``{bundle, from, to}``.

        Raises:
            OwnershipError, NoBroker, PeerError: why it was not moved.
        """

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        """The bundle of a namespace that is ``LARGEST`` or ``HOT``.

        Raises:
            BundleGone: nothing was reported of any.
        """

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        positions: tuple[int, ...],
        who: str = "",
        *,
        is_unloading: bool,
    ) -> Reply:
        """Split a bundle by order of an operator; then move what came of it to better places.

        Raises:
            OwnershipError, NoBroker, PeerError: why it was not split.
        """

    async def merge(
        self, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Merge two neighbours by order of an operator, one of which may have to move first.

        A dry run merges and moves nothing; either way the answer says where: ``{bundle, owner}``.

        Raises:
            OwnershipError, NoBroker, PeerError: why they were not merged.
        """


class ControllerAdmin(Protocol):
    """Replicated topics, at the controller; answers are plain JSON values.

    With ``is_dry_run`` all is judged and told as it would be done, and nothing is written. Brokers
    are their numbers, -1 is no leader, and a partition's row has at least ``topic`` and
    ``partition``.
    """

    def overview(self) -> Mapping[str, Any]:
        """The controller, with counts of all that there is.

        ``{broker, epoch, topics, partitions, offline, under_replicated, under_min_isr,
        not_preferred, reassigning, deleting, queue, watches, brokers: [{broker, address, daemon,
        epoch, state, leaders, replicas}]}``; of a broker that is dead, and has replicas, address,
        daemon and epoch are null.
        """

    def topics(self) -> list[dict[str, Any]]:
        """All topics, with counts of their partitions.

        ``{topic, topic_id, partitions, offline, under_replicated, under_min_isr, reassigning,
        is_deleting}``
        """

    def describe(self, topic: str) -> Mapping[str, Any]:
        """A topic, partition by partition.

        ``{topic, topic_id, min_isr, unclean, is_deleting, partitions: [{topic, partition, replicas,
        leader, isr, leader_epoch, controller_epoch, is_recovering, adding, removing}]}``

        Raises:
            TopicMissing: there is none.
        """

    def transitions(
        self, topic: str | None, partition: int | None, limit: int
    ) -> list[dict[str, Any]]:
        """What this daemon has changed while it controlled, newest first; None: of all.

        ``{at_ms, controller_epoch, topic, partition, before, leader, leader_epoch, isr, reason}``
        """

    async def create_topic(
        self, topic: str, replicas: Replicas, rules: TopicRules, *, is_dry_run: bool
    ) -> Reply:
        """Make a topic; returns when its partitions have been initialised.

        ``{topic, partitions: [{topic, partition, replicas}]}``: the new ones.

        Raises:
            TopicExists, InvalidReplicas, OrderConflict (there are too many topics): as named.
        """

    def spread(self, partitions: int, replication_factor: int) -> Replicas:
        """Replicas for the partitions of a new topic, evenly over the live brokers.

        Raises:
            InvalidReplicas: there are fewer live brokers than a partition wants replicas.
        """

    async def grow_topic(
        self, topic: str, partitions: int, replicas: Replicas, *, is_dry_run: bool
    ) -> Reply:
        """Give a topic more, ``partitions`` in all, and spread the rest; answers as `create_topic`.

        Raises:
            TopicMissing, TopicExists (it is being deleted), InvalidReplicas: as named.
        """

    async def alter_topic(self, topic: str, changes: RuleChanges, *, is_dry_run: bool) -> Reply:
        """Change what a topic asks for; so many are under min ISR then. What is not named stays.

        ``{topic, before: {min_isr, unclean}, after: {min_isr, unclean}, under_min_isr}``

        Raises:
            TopicMissing, InvalidReplicas, OrderConflict (its configuration cannot be read).
        """

    async def adopt_topic(self, topic: str, topic_id: str | None, *, is_dry_run: bool) -> Reply:
        """Give a topic the id that its node lacks, None: a new one; then it is led.

        ``{topic, topic_id, brokers, dead, partitions: [{topic, partition, replicas, state, leader,
        isr, leader_epoch}]}``: how it was led by the states of kafka, broker-ctl, or none.

        Raises:
            TopicMissing, OrderConflict (it has an id, or another has this one): as named.
        """

    async def delete_topic(self, topic: str, *, is_dry_run: bool) -> Reply:
        """Ask for a topic's end, which comes when every replica that lives is gone.

        ``{topic, partitions: COUNT}``

        Raises:
            TopicMissing: there is none.
        """

    def plan_reassignment(self, topics: list[str], brokers: list[int]) -> Mapping[str, Any]:
        """Replicas for all partitions of the topics, evenly over the brokers, moving few.

        ``{version: 1, partitions: [{topic, partition, replicas, before}]}``: those that change.

        Raises:
            TopicMissing, InvalidReplicas: as named.
        """

    async def reassign(self, targets: Targets, *, is_dry_run: bool) -> Reply:
        """Begin to move partitions, each by itself; one under way is overridden.

        ``{partitions: [{topic, partition, replicas, before}]}``

        Raises:
            TopicMissing, InvalidReplicas: nothing was begun.
        """

    async def cancel_reassignment(
        self, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """Go back to where they were; none: all that are under way. Answers as `reassign`.

        Raises:
            ReassignmentMissing: one of them is not under way.
        """

    def reassignments(self) -> list[dict[str, Any]]:
        """Under way: ``{topic, partition, replicas, adding, removing, isr, missing}``."""

    async def elect(
        self, kind: str, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """Elect leaders, ``preferred`` or ``unclean``; no partitions: all that would change.

        Unclean elections need their partitions named. The reason is why nobody else was elected.
        ``{kind, partitions: [{topic, partition, before, leader, reason}]}``

        Raises:
            TopicMissing: a partition that does not exist. InvalidReplicas: unclean, and none named.
        """

    async def shut_down(self, broker_id: int, broker_epoch: int, *, is_forced: bool) -> Reply:
        """Take a broker's leaderships and ISR memberships away, as it is about to stop.

        Not forced, nothing is done where a partition would have fewer in sync than it asks for.
        ``{broker, is_done, led: [[TOPIC, PARTITION]], reason}``: what it still leads.

        Raises:
            Fenced: the epoch is of an earlier life of that broker.
        """


class Cluster(Protocol):
    """Who is there."""

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Where a live broker is reached."""

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Where the daemon of a live broker answers binary lookups."""

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None while nobody is known to lead."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a decision.

    Attributes:
        result: ``done``, ``failed``, ``dry_run``, ``paused``, ``held_back`` (by what brokers do by
            themselves) or ``skipped``.
        detail: why, where it was not done.
        took_s: from the first act to the last.
    """

    result: str
    detail: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One decision with its outcome, or one event of this broker."""

    at_ms: int
    epoch: int
    cycle: int
    decision: Decision
    outcome: Outcome
    extra: Mapping[str, Any] = field(default_factory=dict)


class Journal(Protocol):
    """Where decisions and their outcomes are written down: a log line, a counter, a row."""

    def record(self, entry: JournalEntry) -> None:
        """Write down; never blocks, and never raises."""

    def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""


class TransitionJournal(Protocol):
    """Where the controller's transitions are written down."""

    def record_transitions(self, epoch: int, at_ms: int, transitions: Sequence[Transition]) -> None:
        """Write down what the controller of ``epoch`` has changed; never blocks, never raises."""


# Raises `AuthorityLost` where the lease has run out or the session has ended (I1a).
CheckAuthority = Callable[[], None]
# Sends one order to the broker with this id.
Send = Callable[[str, Command], Awaitable[Reply]]
