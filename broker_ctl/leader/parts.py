"""What leading stands on: built once by `daemon`, used by one leading after another."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.clock import Clock
from broker_ctl.coordination.directives import Directives
from broker_ctl.coordination.moves import Moves
from broker_ctl.coordination.peers import Peers
from broker_ctl.coordination.registry import Registry
from broker_ctl.core.broker import BrokerUrls
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.constraints import NO_CONSTRAINTS, Constraints
from broker_ctl.core.names import Namespace
from broker_ctl.core.namespace import Ring
from broker_ctl.leader.capture import LeaderHistory
from broker_ctl.leader.rules import LeaderRules
from broker_ctl.ports import Journal
from broker_ctl.store.interface import MetadataStore


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


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """What leading stands on.

    Attributes:
        store: the cluster's metadata.
        registry: who is alive. Followed already.
        moves: moves in progress. Followed already.
        peers: how orders reach brokers, this one among them.
        clock: decides and dates.
        journal: where decisions go.
        rules: asked at each turn, since they may change at run time.
        ring_of: the ring of a namespace; raises `NamespaceMissing`.
        owner_of: the owner node of a bundle, from a cache that follows the nodes.
        directives: what operators have ordered. Followed already.
        constraints: where bundles may live, by the newest policies that were read.
        history: where what is seen is written down; None: nowhere.
    """

    store: MetadataStore
    registry: Registry
    moves: Moves
    peers: Peers
    clock: Clock
    journal: Journal
    rules: Callable[[], LeaderRules]
    ring_of: Callable[[Namespace], Awaitable[Ring]]
    owner_of: Callable[[Bundle], Awaitable[OwnerNode | None]]
    directives: Directives
    constraints: Callable[[], Constraints] = lambda: NO_CONSTRAINTS
    history: LeaderHistory | None = None

    def can_receive(self, broker_id: str) -> bool:
        """Whether a broker is alive, not on its way down, and not to be emptied."""
        peer = self.registry.peer(broker_id)
        if peer is None or peer.registration.is_draining:
            return False
        return broker_id not in self.directives.drains
