"""Dependencies and rules of the load balancer, and its counters: built once, used in each term."""

import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decisions import DecisionLog, DecisionRecorder, LeaderHistory
from broker_ctl.clock import Clock
from broker_ctl.coordination.directives import Directives, MoveRecord, Moves
from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.cluster.surges import MassLossRules
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.load import UsageWeights
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.rules.leader_rules import NO_SURGES, SurgeRules
from broker_ctl.errors import BundleMoving
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import MoveNode
from broker_ctl.store.records.ownership import OwnerNode
from broker_ctl.tracing.spans import Tracer

# The rules of the leader, as one value.


@dataclass(frozen=True, slots=True)
class LeaderRules(CycleRules):
    """Policies with their rules, and the intervals and limits of the leader.

    Attributes:
        shedding_interval_s: from the end of one cycle to the start of the next
            (loadBalancerSheddingIntervalMinutes).
        splitting_interval_s: interval of splits and merges (loadBalancerSplitIntervalMinutes).
        quota_interval_s: interval at which averages are written
            (loadBalancerResourceQuotaUpdateIntervalMinutes).
        is_dry_run: decide and record, but move and split nothing (dryRun).
        weights: weights of the resources in a broker's usage.
        average_sample_s: time that counts as one sample of the averages; 0: each report is one
            (loadBalancerAverageSampleSeconds).
        settle_s: seconds from the start of a term to the first cycle, for reports to arrive.
        reclaim_grace_s: seconds for which only its former owner may acquire a bundle after a
            session expiry (brokerReclaimGraceMillis).
        reservation_s: maximum age of a placement whose broker does not report the bundle.
        order_s: timeout of a command that only changes metadata.
        unload_s: timeout for a data plane to close a bundle (namespaceBundleUnloadingTimeoutMs).
        load_s: timeout for a data plane to load a bundle.
        forget_s: seconds to keep averages of a bundle that is neither owned nor reported.
        mass_loss: when balancing is paused because many brokers are gone.
        surges: growth of traffic that is answered at once.
    """

    surges: SurgeRules = NO_SURGES
    mass_loss: MassLossRules = field(default_factory=MassLossRules)
    weights: UsageWeights = field(default_factory=UsageWeights)
    average_sample_s: float = 0.0
    shedding_interval_s: float = 60.0
    splitting_interval_s: float = 60.0
    quota_interval_s: float = 15 * 60.0
    is_dry_run: bool = False
    settle_s: float = 10.0
    reclaim_grace_s: float = 2.0
    reservation_s: float = 30.0
    order_s: float = 5.0
    unload_s: float = 60.0
    load_s: float = 30.0
    forget_s: float = 15 * 60.0


# Counters of the balancer: of one term, or of all terms of a process.


_NEWEST: Final = 1024


class PlacementResult(StrEnum):
    """Result of a placement, in Pulsar's words.

    ``SUCCESS``: one was chosen. ``EMPTY``: no broker could receive. ``SKIP``: the earlier
    reservation is still valid.
    """

    SUCCESS = "Success"
    EMPTY = "Empty"
    SKIP = "Skip"


class PlacementLog:
    """Counts and times the placements of one term."""

    def __init__(self) -> None:
        self.results: Counter[PlacementResult] = Counter()
        self._newest_s: deque[float] = deque(maxlen=_NEWEST)

    def add(self, result: PlacementResult, took_s: float) -> None:
        """Count one placement; ``took_s`` in seconds."""
        self.results[result] += 1
        self._newest_s.append(took_s)

    @property
    def newest_s(self) -> tuple[float, ...]:
        """Durations of the newest placements in seconds, oldest first."""
        return tuple(self._newest_s)


@dataclass(frozen=True, slots=True)
class BalancerCounters:
    """An immutable value to export.

    Attributes:
        corrupt_reports: load reports that did not decode.
        relieved_brokers: number of brokers that bundles were moved from, each counted once per
            cycle.
        placements: number of placements by result.
        placement_s: durations of the newest placements in seconds.
    """

    corrupt_reports: int = 0
    relieved_brokers: int = 0
    placements: Counter[PlacementResult] = field(default_factory=Counter)
    placement_s: tuple[float, ...] = ()

    def __add__(self, later: "BalancerCounters") -> "BalancerCounters":
        return BalancerCounters(
            self.corrupt_reports + later.corrupt_reports,
            self.relieved_brokers + later.relieved_brokers,
            self.placements + later.placements,
            (*self.placement_s, *later.placement_s)[-_NEWEST:],
        )


# Moves driven by one attached process: they end with it, and are never adopted.
#
# The cluster executes what was requested of it. The next leader sees the progress in the owner
# nodes.


class OwnMoves:
    """As `Moves`, in memory.

    Attributes:
        misdirected: number of moves that ended at another broker than planned.
    """

    def __init__(self) -> None:
        self.misdirected = 0
        self._records: dict[str, MoveRecord] = {}

    @property
    def all(self) -> Sequence[MoveRecord]:
        """All moves."""
        return list(self._records.values())

    def of(self, bundle: Bundle) -> MoveRecord | None:
        """The move of a bundle, or of one that overlaps it."""
        for record in self._records.values():
            if record.move.bundle.overlaps(bundle):
                return record
        return None

    def check_idle(self, bundle: Bundle) -> None:
        """Check that neither the bundle nor one that overlaps it is being moved.

        Raises:
            BundleMoving: it is being moved already.
        """
        if (other := self.of(bundle)) is not None:
            raise BundleMoving(f"{bundle}: {other.move.bundle} is being moved already")

    @contextmanager
    def recording_move(self, move: MoveNode) -> Iterator[None]:
        """Record the move for the length of the block.

        Raises:
            BundleMoving: the bundle is being moved already.
        """
        self.check_idle(move.bundle)
        self._records[move.move_id] = MoveRecord(move, 0)
        try:
            yield
        finally:
            del self._records[move.move_id]


# Dependencies of the load balancer: built once by `daemon`, used in each term.


# Chooses another receiver for a bundle, given the brokers that failed; raises `NoBroker`.
Choose = Callable[[Bundle, frozenset[str]], Awaitable[str]]


class Executor(Protocol):
    """Executes the decisions of one term and records each outcome."""

    async def blocked_reason(self) -> str:
        """Why nothing may be executed now; empty if nothing blocks execution."""

    async def execute_all(
        self, decisions: Iterable[Action], waits: Mapping[Action, Sequence[Action]] = ...
    ) -> Mapping[Action, Reply]:
        """Execute all decisions; returns the successful ones with their replies.

        A decision starts once those that it ``waits`` for have ended, and is held back where one
        of them failed.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """

    async def execute(self, decision: Action) -> Reply:
        """Execute one decision.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """

    async def adopt(self) -> None:
        """Take over the moves of an earlier leader.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """


# Builds the executor of a term; `Choose` finds another receiver for a move whose receiver failed.
ExecutorFactory = Callable[
    ["BalancerDependencies", Leadership, BundleHistory, DecisionRecorder, Choose], Executor
]


@dataclass(frozen=True, slots=True)
class BalancerDependencies:
    """Dependencies of the load balancer.

    Attributes:
        own_id: id of this process in the election.
        registry, moves, directives: already started.
        rng: for the pauses of retries.
        rules: called at each use, because the rules may change at run time.
        ring_of: the ring of a namespace; raises `NamespaceMissing`.
        owner_of: the owner node of a bundle, from a watched cache.
        constraints: the constraints on placement, from the newest policies read.
        configuration_store: the partitioned topics, which a term reads; None: they do not count.
        history: records views and memory; None: no history.
        needs_dual_authorization: whether another role than the proposer's has to approve a plan.
        is_healthy: asks a broker whether it serves; None: this process is one of the brokers, and
            only a look from outside can say so.
        planner: runs computations on a whole view, one at a time over all terms.
        tracer: None: nothing is traced.
    """

    own_id: str
    store: MetadataStore
    registry: Registry | ForeignBrokers
    moves: Moves | OwnMoves
    build_executor: ExecutorFactory
    clock: Clock
    rng: random.Random
    journal: DecisionLog
    rules: Callable[[], LeaderRules]
    ring_of: Callable[[Namespace], Awaitable[Ring]]
    owner_of: Callable[[Bundle], Awaitable[OwnerNode | None]]
    directives: Directives
    constraints: Callable[[], Constraints] = lambda: NO_CONSTRAINTS
    configuration_store: MetadataStore | None = None
    history: LeaderHistory | None = None
    needs_dual_authorization: bool = False
    is_healthy: Callable[[str], Awaitable[bool]] | None = None
    planner: WorkerThread = field(default_factory=lambda: WorkerThread("planner"))
    tracer: Tracer | None = None

    def can_receive(self, broker_id: str) -> bool:
        """Whether a broker is alive, not stopping and not drained."""
        peer = self.registry.peer(broker_id)
        if peer is None or peer.is_draining:
            return False
        return broker_id not in self.directives.drains
