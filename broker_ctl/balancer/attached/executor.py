"""Carrying decisions out on a Pulsar cluster, by its admin API alone.

The cluster knows no epoch of ours: a request that is on its way when another process begins to
lead is carried out all the same. So everything is looked at again right before a request, requests
are few at a time, and what came of one is told by the owner nodes and the rings, never by its
answer alone (docs: pulsar-admin-api).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from broker_ctl.balancer.attached.foreign_balancer import ClusterBalancer
from broker_ctl.balancer.attached.interfaces import AdminApi
from broker_ctl.balancer.attached.moves import OwnMoves
from broker_ctl.balancer.attached.outcome_verifier import OutcomeVerifier
from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerDependencies, Choose
from broker_ctl.balancer.execution.execution_log import ExecutionLog
from broker_ctl.balancer.execution.executor import NOTHING_TO_SPLIT
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.cluster.decisions import Action, Split, Transfer
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.model.bundle import BundleRange
from broker_ctl.core.model.commands import Reply
from broker_ctl.errors import (
    NoBroker,
    PeerRefused,
    PeerUnreachable,
)
from broker_ctl.store.records.broker_ctl import MoveNode

log = logging.getLogger(__name__)

_AT_ONCE: Final = 4
# The only algorithm of Pulsar that is told where to cut.
_BY_POSITIONS: Final = "specified_positions_divide"


@dataclass(frozen=True, slots=True)
class Attachment:
    """How a cluster that somebody else runs is reached.

    Attributes:
        admin: its admin API.
        own_balancing: what it does by itself, and whether we may act.
        moves: those that this process drives.
    """

    admin: AdminApi
    own_balancing: ClusterBalancer
    moves: OwnMoves

    def hands(
        self,
        parts: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        outcomes: DecisionRecorder,
        _: Choose,
    ) -> "PulsarExecutor":
        """See `leader.parts.MakeHands`; who receives is the cluster's word in the end."""
        return PulsarExecutor(self, parts, leadership, memory, outcomes)


class PulsarExecutor:
    """The hands of one leading: `leader.parts.Hands`. Moves and splits are all that there is."""

    def __init__(
        self,
        attachment: Attachment,
        parts: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        outcomes: DecisionRecorder,
    ) -> None:
        self._admin = attachment.admin
        self._own_balancing = attachment.own_balancing
        self._moves = attachment.moves
        self._parts = parts
        self._leadership = leadership
        self._memory = memory
        self._outcomes = outcomes
        self._witness = OutcomeVerifier(parts)
        self._deeds = ExecutionLog(outcomes, parts.clock, self._act, _AT_ONCE)
        self._numbers = count(1)
        self._ranges: WeakValueDictionary[BundleRange, asyncio.Lock] = WeakValueDictionary()

    async def held_back(self) -> str:
        """See `leader.parts.Hands.held_back`."""
        return await self._own_balancing.held_back()

    async def perform(self, decisions: Iterable[Action]) -> Mapping[Action, Reply]:
        """See `leader.parts.Hands.perform`; nothing while it is held back.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this process does not lead any more.
        """
        if why := await self.held_back():
            for decision in decisions:
                self._outcomes.record(decision, Outcome("held_back", why))
            return {}
        return await self._deeds.perform(decisions)

    async def carry_out(self, decision: Action) -> Reply:
        """See `leader.parts.Hands.carry_out`.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            LeadingSuspended: the connection was lost meanwhile; nothing was asked of the cluster.
            AuthorityLost: this process does not lead any more.
        """
        return await self._deeds.carry_out(decision)

    async def adopt(self) -> None:
        """Nothing: what an earlier leader has asked for, the cluster carries out by itself."""

    async def _act(self, decision: Action) -> Reply:
        async with self._turn_of(decision):
            # First: what is looked at before a long wait says nothing of what is there after it.
            await self._leadership.wait_deciding()
            if why := await self.held_back():
                raise PeerRefused("HeldBack", why)
            match decision:
                case Transfer():
                    return await self._transfer(decision)
                case Split():
                    return await self._split(decision)
                case _:
                    raise PeerRefused(
                        "NotPossible", f"Pulsar has no such request: {decision.sentence}"
                    )

    @asynccontextmanager
    async def _turn_of(self, decision: Action) -> AsyncIterator[None]:
        """Many a release notes the destination of an unload by the range alone.

        Of two namespaces with the same boundaries, as most have, the second would overwrite the
        first (docs: pulsar-placement): equal ranges go one after the other.

        Raises:
            BundleMoving: the bundle is on its way already.
        """
        if not isinstance(decision, Transfer):
            yield
            return
        self._moves.check_still(decision.bundle)
        turn = self._ranges.setdefault(decision.bundle.range, asyncio.Lock())
        async with turn:
            yield

    # Moves.

    async def _transfer(self, transfer: Transfer) -> Reply:
        """The view is some time old: everything is looked at again."""
        bundle, rules = transfer.bundle, self._parts.rules()
        ring = await self._witness.ring_with(bundle)
        owner = await self._witness.owned_by(bundle, transfer.source)
        if not self._parts.can_receive(transfer.destination):
            raise NoBroker(f"{transfer.destination} has gone, or is to be emptied")
        limit_s = rules.unload_s + rules.load_s
        move = MoveNode(
            move_id=f"{self._leadership.epoch:010d}-{next(self._numbers):06d}",
            bundle=bundle,
            epoch=self._leadership.epoch,
            from_broker=transfer.source,
            token=owner.token,
            to_broker=transfer.destination,
            deadline_ms=self._parts.clock.wall_ms() + round(limit_s * 1000),
            ring_version=ring.version,
        )
        with self._moves.under_way(move):
            receiver = await self._moved(move)
        self._memory.given(bundle, receiver)
        self._memory.moved(bundle, transfer.footprint.throughput_bytes)
        if receiver != transfer.destination:
            self._moves.astray += 1
            raise PeerRefused(
                "WentElsewhere",
                f"{bundle} went to {receiver}: the cluster did not heed {transfer.destination}",
            )
        return {"bundle": str(bundle), "to": receiver}

    async def _moved(self, move: MoveNode) -> str:
        """Who has the bundle then; a request without an answer may have been carried out."""
        complaint: PeerUnreachable | None = None
        # With the answer it has been given up, and is taken by whoever it is looked up at.
        limit_s = self._parts.rules().load_s
        self._leadership.check()
        self._memory.disturbed(move.bundle)
        try:
            await self._admin.unload(move.bundle, move.to_broker)
        except PeerUnreachable as error:
            complaint, limit_s = error, limit_s + self._parts.rules().unload_s
            log.info("%s: %s; looking at what came of it", move.bundle, error)
        owner = await self._witness.next_owner(move.bundle, move.token, limit_s)
        if owner is not None and owner.token != move.token:
            return owner.broker_id
        if complaint is not None:
            raise complaint
        if owner is not None:
            raise PeerRefused(
                "NotUnloaded", f"{move.from_broker} has {move.bundle} still, and says otherwise"
            )
        raise PeerRefused(
            "NotTaken",
            f"{move.from_broker} gave {move.bundle} up, and nobody has asked for it since: "
            "whoever does next has it placed",
        )

    # Splits.

    async def _split(self, split: Split) -> Reply:
        """The children show in the ring; a request without an answer may have been carried out."""
        bundle, rules = split.bundle, self._parts.rules()
        await self._witness.ring_with(bundle)
        await self._witness.owned_by(bundle, split.owner)
        self._leadership.check()
        complaint: PeerUnreachable | None = None
        positions = split.boundaries if split.algorithm == _BY_POSITIONS else ()
        self._memory.splitting.add(bundle)
        try:
            try:
                await self._admin.split(bundle, split.algorithm, positions)
            except PeerUnreachable as error:
                complaint = error
                log.info("%s: %s; looking at what came of it", bundle, error)
            limit_s = 0.0 if complaint is None else rules.order_s + rules.load_s
            children = await self._witness.children(bundle, limit_s)
        finally:
            self._memory.splitting.discard(bundle)
        if children:
            return {"bundle": str(bundle), "children": [str(child) for child in children]}
        if complaint is not None:
            raise complaint
        raise PeerRefused(NOTHING_TO_SPLIT, f"{split.owner}: no boundary would part {bundle}")
