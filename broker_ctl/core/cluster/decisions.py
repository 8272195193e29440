"""Decisions of the leader, with reasons from a closed list. Doing nothing is a decision too.

Every decision is one ``sentence`` for a log line and one plain ``to_row()`` for the journal and for
HTTP; ``bundles`` names the bundles that it affects.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from broker_ctl.core.model.load import LoadVector, throughput_text
from broker_ctl.core.model.names import Bundle


class Reason(StrEnum):
    """The reason of a decision. The values are metric labels: the list is closed and only grows."""

    # why a bundle moves
    OVERLOADED = "overloaded"
    IMBALANCE = "imbalance"
    UNDERLOADED_RECEIVER = "underloaded_receiver"
    UNOWNED = "unowned"
    DRAIN = "drain"
    ADMIN = "admin"
    PROFILE = "profile"
    SURGE = "surge"
    # why a broker receives it
    RESERVED = "reserved"
    LEAST_MSG_RATE = "least_msg_rate"
    ALL_OVERLOADED = "all_overloaded"
    LEAST_USAGE = "least_usage"
    ROUND_ROBIN = "round_robin"
    DRAWN = "drawn"
    # why a broker is passed over, or a bundle can go nowhere else
    ISOLATION = "isolation"
    TOPIC_KIND = "topic_kind"
    ANTI_AFFINITY = "anti_affinity"
    EVEN_SPREAD = "even_spread"
    VERSION = "version"
    CAPACITY = "capacity"
    TOPIC_SPREAD = "topic_spread"
    # why a bundle is split or merged
    TOPICS = "topics"
    SESSIONS = "sessions"
    MSG_RATE = "msg_rate"
    BANDWIDTH = "bandwidth"
    BROKER_SHARE = "broker_share"
    COLD = "cold"
    NEW_PART = "new_part"
    # why a broker sheds nothing
    TOO_FEW_BROKERS = "too_few_brokers"
    BELOW_THRESHOLD = "below_threshold"
    LOW_THROUGHPUT = "low_throughput"
    SOLE_BUNDLE = "sole_bundle"
    NO_BUNDLES = "no_bundles"
    NO_LOAD_DATA = "no_load_data"
    STALE_REPORT = "stale_report"
    DRAINING = "draining"
    # why a broker is not trusted, or why no broker is demoted though several are slow
    SLOW_BROKER = "slow_broker"
    TOO_MANY_SLOW = "too_many_slow"
    # why a bundle stays where and as it is
    PINNED = "pinned"
    EXCLUDED = "excluded"
    NOT_MEASURED = "not_measured"
    IN_GRACE = "in_grace"
    MOVING = "moving"
    GONE = "gone"
    NOT_OWNED = "not_owned"
    NO_BROKER = "no_broker"
    NO_GAIN = "no_gain"
    HOT_TOPIC = "hot_topic"
    TOO_LARGE = "too_large"
    SUPERSEDED = "superseded"
    TOO_FEW_TOPICS = "too_few_topics"
    INDIVISIBLE = "indivisible"
    COOLING_DOWN = "cooling_down"
    MAX_BUNDLES = "max_bundles"
    CYCLE_LIMIT = "cycle_limit"
    HIT_COUNT = "hit_count"
    MIN_BUNDLES = "min_bundles"
    MERGED_TOO_LARGE = "merged_too_large"
    QUIET_HOURS = "quiet_hours"
    HEADROOM = "headroom"
    # which budget is spent
    BUDGET_BROKER = "budget_broker"
    BUDGET_CLUSTER = "budget_cluster"
    BUDGET_HOURLY_LOAD = "budget_hourly_load"
    BUDGET_NAMESPACE = "budget_namespace"

    @property
    def is_drain(self) -> bool:
        """Return whether a bundle moves because its broker is being drained."""
        return self in {Reason.DRAIN, Reason.SLOW_BROKER}

    @property
    def is_own(self) -> bool:
        """Return whether the balancer chose to move the bundle.

        Rest periods and budgets are there so that its choices do not flap. A death, a drain, a
        rollout, a policy and an operator choose for it.
        """
        return self not in {Reason.ADMIN, Reason.DRAIN, Reason.ISOLATION, Reason.UNOWNED}

    @property
    def must_leave(self) -> bool:
        """Return whether a bundle must leave its broker, whatever its load is."""
        return self.is_drain or self is Reason.ISOLATION

    @property
    def is_hard_limit(self) -> bool:
        """Return whether a broker gives because it is beyond a limit, however full it is."""
        return self in {Reason.CAPACITY, Reason.TOPIC_SPREAD}

    @property
    def words(self) -> str:
        """The reason for people: ``low throughput``."""
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Assign:
    """A bundle without an owner gets one."""

    kind: ClassVar[str] = "assign"
    bundle: Bundle
    destination: str
    reason: Reason
    detail: str

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """What it lays claim to."""
        return (self.bundle,)

    @property
    def sentence(self) -> str:
        """One log line."""
        return f"assign {self.bundle} to {self.destination}: {self.reason.words}: {self.detail}"

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return _row(self, bundle=str(self.bundle), destination=self.destination)


@dataclass(frozen=True, slots=True)
class Unload:
    """A broker should release a bundle; the plan chooses the receiver."""

    kind: ClassVar[str] = "unload"
    bundle: Bundle
    source: str
    reason: Reason
    detail: str

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """What it lays claim to."""
        return (self.bundle,)

    @property
    def sentence(self) -> str:
        """One log line."""
        return f"unload {self.bundle} from {self.source}: {self.reason.words}: {self.detail}"

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return _row(self, bundle=str(self.bundle), source=self.source)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A bundle moves from one broker to another one, which was chosen and has room.

    Attributes:
        footprint: load that moves.
        source_before: load of the source before the move.
        destination_before: load of the destination before the move.
    """

    kind: ClassVar[str] = "transfer"
    bundle: Bundle
    source: str
    destination: str
    reason: Reason
    detail: str
    load_vector: LoadVector
    source_before: LoadVector
    destination_before: LoadVector

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """What it lays claim to."""
        return (self.bundle,)

    @property
    def source_after(self) -> LoadVector:
        """Load of the source after the move."""
        return self.source_before - self.load_vector

    @property
    def destination_after(self) -> LoadVector:
        """Load of the destination after the move."""
        return self.destination_before + self.load_vector

    @property
    def sentence(self) -> str:
        """One log line."""
        moved = throughput_text(self.load_vector.throughput_bytes)
        source = _change(self.source_before, self.source_after)
        destination = _change(self.destination_before, self.destination_after)
        return (
            f"transfer {self.bundle} ({moved}) from {self.source} ({source}) "
            f"to {self.destination} ({destination}): {self.reason.words}: {self.detail}"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return _row(
            self,
            bundle=str(self.bundle),
            source=self.source,
            destination=self.destination,
            throughput_bytes_per_s=self.load_vector.throughput_bytes,
            source_usage_before_ratio=self.source_before.usage_ratio,
            source_usage_after_ratio=self.source_after.usage_ratio,
            destination_usage_before_ratio=self.destination_before.usage_ratio,
            destination_usage_after_ratio=self.destination_after.usage_ratio,
        )


@dataclass(frozen=True, slots=True)
class Split:
    """A bundle is replaced by its children, which stay with the owner.

    Attributes:
        algorithm: name in `splitting.catalog`.
        boundaries: where the bundle is split. Empty if the algorithm needs the topics, which only
            the owner knows: then the owner chooses.
    """

    kind: ClassVar[str] = "split"
    bundle: Bundle
    owner: str
    algorithm: str
    boundaries: tuple[int, ...]
    reason: Reason
    detail: str

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """What it lays claim to."""
        return (self.bundle,)

    @property
    def sentence(self) -> str:
        """One log line."""
        where = ", ".join(f"0x{point:08x}" for point in self.boundaries) or self.algorithm
        return f"split {self.bundle} of {self.owner} at {where}: {self.reason.words}: {self.detail}"

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return _row(
            self,
            bundle=str(self.bundle),
            owner=self.owner,
            algorithm=self.algorithm,
            boundaries=[f"0x{point:08x}" for point in self.boundaries],
        )


@dataclass(frozen=True, slots=True)
class Merge:
    """Two adjacent bundles of one owner become one."""

    kind: ClassVar[str] = "merge"
    left: Bundle
    right: Bundle
    owner: str
    reason: Reason
    detail: str

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """What it lays claim to."""
        return (self.left, self.right)

    @property
    def sentence(self) -> str:
        """One log line."""
        return (
            f"merge {self.left} and {self.right.range} of {self.owner}: "
            f"{self.reason.words}: {self.detail}"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return _row(self, left=str(self.left), right=str(self.right), owner=self.owner)


@dataclass(frozen=True, slots=True)
class Skip:
    """A deliberate decision to do nothing.

    Attributes:
        subject: a bundle, a broker id, or ``cluster``.
    """

    kind: ClassVar[str] = "skip"
    subject: str
    reason: Reason
    detail: str

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """None: it affects no bundle."""
        return ()

    @property
    def sentence(self) -> str:
        """One log line."""
        return f"skip {self.subject}: {self.reason.words}: {self.detail}"

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return _row(self, subject=self.subject)


Action = Assign | Unload | Transfer | Split | Merge
Decision = Action | Skip


def _row(decision: Decision, **fields: object) -> dict[str, Any]:
    return {
        "kind": decision.kind,
        "reason": decision.reason.value,
        "detail": decision.detail,
        "sentence": decision.sentence,
        **fields,
    }


def _change(before: LoadVector, after: LoadVector) -> str:
    return f"{before.usage_ratio:.1%} -> {after.usage_ratio:.1%}"
