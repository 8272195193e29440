"""What leading stands on: built once by `daemon`, used by one leading after another."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.balancer.context.history_recorder import LeaderHistory
from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.clock import Clock
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.coordination.replicated.moves import MoveRecord
from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.history.journal import Journal
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.constraints import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.store.interface import MetadataStore

# Who else may receive a bundle, given who has been asked in vain; raises `NoBroker`.
Choose = Callable[[Bundle, frozenset[str]], Awaitable[str]]


class OwnerNode(Protocol):
    """An owner node: whose it is, and its fencing token."""

    @property
    def urls(self) -> BrokerUrls:
        """Of the owner."""
        ...

    @property
    def token(self) -> int:
        """The node's czxid."""
        ...


class ReportingBroker(Protocol):
    """A broker that is there."""

    @property
    def session_id(self) -> int:
        """Of this life of it; the next one has another."""
        ...

    @property
    def is_draining(self) -> bool:
        """Whether it is on its way down, and says so."""
        ...


class ReportingBrokers(Protocol):
    """Who is there: `coordination.registry.Registry`, or brokers that somebody else runs."""

    @property
    def peers(self) -> Mapping[str, ReportingBroker]:
        """All of them by id, as far as was read."""
        ...

    def peer(self, broker_id: str) -> ReportingBroker | None:
        """One of them."""
        ...

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Hear that the set has changed; returns what stops it."""
        ...


class MovesUnderWay(Protocol):
    """Moves that have begun and not ended, whoever drives them."""

    @property
    def all(self) -> Sequence[MoveRecord]:
        """Every move."""
        ...

    def of(self, bundle: Bundle) -> MoveRecord | None:
        """The move of a bundle, or of one that overlaps it."""
        ...


class Executor(Protocol):
    """What carries decisions out in one leading; each outcome is written down."""

    async def held_back(self) -> str:
        """Why nothing may be carried out now, whoever orders it; empty: it may."""
        ...

    async def perform(self, decisions: Iterable[Action]) -> Mapping[Action, Reply]:
        """Carry out all of them; answers with what was done, and its replies.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        ...

    async def carry_out(self, decision: Action) -> Reply:
        """Carry out one.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """
        ...

    async def adopt(self) -> None:
        """Take over what an earlier leader has begun.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        ...


class ExecutorFactory(Protocol):
    """Makes the hands of one leading."""

    def __call__(
        self,
        parts: "BalancerDependencies",
        leadership: Leadership,
        memory: BundleHistory,
        outcomes: DecisionRecorder,
        choose: Choose,
        /,
    ) -> Executor:
        """``choose``: another receiver for a move whose own one failed."""
        ...


@dataclass(frozen=True, slots=True)
class BalancerDependencies:
    """What leading stands on.

    Attributes:
        own_id: this process, as its seat names it.
        store: the cluster's metadata.
        registry: who is alive. Followed already.
        moves: moves in progress. Followed already.
        hands: how decisions are carried out.
        clock: decides and dates.
        journal: where decisions go.
        rules: asked at each turn, since they may change at run time.
        ring_of: the ring of a namespace; raises `NamespaceMissing`.
        owner_of: the owner node of a bundle, from a cache that follows the nodes.
        directives: what operators have ordered. Followed already.
        constraints: where bundles may live, by the newest policies that were read.
        history: where what is seen is written down; None: nowhere.
        planner: runs what is computed on a whole view: one function at a time, of all terms.
    """

    own_id: str
    store: MetadataStore
    registry: ReportingBrokers
    moves: MovesUnderWay
    hands: ExecutorFactory
    clock: Clock
    journal: Journal
    rules: Callable[[], LeaderRules]
    ring_of: Callable[[Namespace], Awaitable[Ring]]
    owner_of: Callable[[Bundle], Awaitable[OwnerNode | None]]
    directives: Directives
    constraints: Callable[[], Constraints] = lambda: NO_CONSTRAINTS
    history: LeaderHistory | None = None
    planner: WorkerThread = field(default_factory=lambda: WorkerThread("planner"))

    def can_receive(self, broker_id: str) -> bool:
        """Whether a broker is alive, not on its way down, and not to be emptied."""
        peer = self.registry.peer(broker_id)
        if peer is None or peer.is_draining:
            return False
        return broker_id not in self.directives.drains
