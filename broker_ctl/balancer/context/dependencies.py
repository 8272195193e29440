"""Dependencies of the load balancer: built once by `daemon`, used in each term."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decision_log import DecisionLog
from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.balancer.context.history_recorder import LeaderHistory
from broker_ctl.balancer.context.own_moves import OwnMoves
from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.clock import Clock
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.coordination.replicated.moves import Moves
from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.constraints import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.ownership import OwnerNode
from broker_ctl.tracing.spans import Tracer

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
