"""Carrying decisions out: moves, splits, merges, placements; each outcome is written down."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerDependencies, Choose
from broker_ctl.balancer.execution.dispatch import Dispatch
from broker_ctl.balancer.execution.execution_log import ExecutionLog, suppress_non_fatal
from broker_ctl.balancer.execution.transfer import MoveRun, newest_owner
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.membership.peers import Peers
from broker_ctl.coordination.replicated.moves import MoveRecord, Moves
from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Reason, Split, Transfer, Unload
from broker_ctl.core.machines.move import ADOPTED, BEGUN, Step
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import AcquireBundle, MergeBundles, Reply, SplitBundle
from broker_ctl.core.model.load_vector import NO_LOAD
from broker_ctl.errors import (
    Ambiguous,
    BundleGone,
    BundleMoving,
    Fenced,
    InvariantBroken,
    MultiFailed,
    NotOwner,
    PeerRefused,
)
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import MoveNode

log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
# The kind of a refusal that an operator may take for an answer.
NOTHING_TO_SPLIT: Final = "NothingToSplit"


@dataclass(frozen=True, slots=True)
class ExecutorConnections:
    """How the brokers of this cluster are reached.

    Attributes:
        moves: the records of moves. Followed already.
        peers: how orders reach brokers, this one among them.
    """

    moves: Moves
    peers: Peers

    def hands(
        self,
        parts: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        outcomes: DecisionRecorder,
        choose: Choose,
    ) -> "BundleExecutor":
        """See `leader.parts.MakeHands`."""
        return BundleExecutor(self, parts, leadership, memory, outcomes, choose=choose)


class BundleExecutor:
    """The hands of one leading of brokers that obey orders: `leader.parts.Hands`.

    Args:
        choose: another receiver for a move whose own one failed.
    """

    def __init__(
        self,
        reach: ExecutorConnections,
        parts: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        outcomes: DecisionRecorder,
        *,
        choose: Choose,
    ) -> None:
        self._parts = parts
        self._moves = reach.moves
        self._leadership = leadership
        self._memory = memory
        self._choose = choose
        self._dispatch = Dispatch(reach.peers, leadership)
        self._deeds = ExecutionLog(outcomes, parts.clock, self._act, _AT_ONCE)
        self._numbers = count(1)
        self._driven: set[str] = set()

    async def held_back(self) -> str:
        """See `leader.parts.Hands.held_back`: nothing but the leading itself binds these."""
        return ""

    async def perform(self, decisions: Iterable[Action]) -> Mapping[Action, Reply]:
        """See `leader.deeds.Deeds.perform`.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        return await self._deeds.perform(decisions)

    async def carry_out(self, decision: Action) -> Reply:
        """See `leader.deeds.Deeds.carry_out`; answers as the owner did, if it was asked.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """
        return await self._deeds.carry_out(decision)

    async def _act(self, decision: Action) -> Reply:
        await self._leadership.wait_deciding()
        match decision:
            case Transfer():
                return await self._transfer(decision)
            case Split():
                return await self._split(decision)
            case Merge():
                return await self._merge(decision)
            case Assign():
                return await self._assign(decision)
            case Unload():
                raise InvariantBroken(f"no plan has this: {decision.sentence}")

    # Placements, splits and merges.

    async def _assign(self, assign: Assign) -> Reply:
        rules = self._parts.rules()
        take = AcquireBundle(self._leadership.epoch, assign.bundle)
        reply = await self._dispatch.send(assign.destination, take, rules.order_s + rules.load_s)
        self._memory.given(assign.bundle, assign.destination)
        return reply

    async def _split(self, split: Split) -> Reply:
        rules, bundle = self._parts.rules(), split.bundle
        cut = SplitBundle(self._leadership.epoch, bundle, split.algorithm, split.boundaries)
        with self._reshaping(bundle):
            reply = await self._dispatch.send(split.owner, cut, rules.order_s + rules.load_s)
        if not reply.get("children"):
            raise PeerRefused(NOTHING_TO_SPLIT, f"{split.owner}: no boundary would part {bundle}")
        return reply

    async def _merge(self, merge: Merge) -> Reply:
        """The owner looks at all of it again: its transaction fails where the view was too old."""
        rules = self._parts.rules()
        join = MergeBundles(self._leadership.epoch, merge.left, merge.right)
        with self._reshaping(merge.left, merge.right):
            reply = await self._dispatch.send(merge.owner, join, rules.order_s + rules.load_s)
        self._memory.merged(merge.left, merge.right, merge.owner)
        return reply

    @contextmanager
    def _reshaping(self, *bundles: Bundle) -> Iterator[None]:
        """Nothing else is planned with them until it is answered."""
        self._memory.splitting.update(bundles)
        try:
            yield
        finally:
            self._memory.splitting.difference_update(bundles)

    # Moves.

    async def _transfer(self, transfer: Transfer) -> Reply:
        """The view is some time old: everything is looked at again before the record is made."""
        bundle, rules = transfer.bundle, self._parts.rules()
        if (other := self._moves.of(bundle)) is not None:
            raise BundleMoving(f"{bundle}: {other.move.bundle} is on its way already")
        ring = await self._parts.ring_of(bundle.namespace)
        if bundle not in ring:
            raise BundleGone(f"{bundle} is no bundle of its namespace")
        owner = await newest_owner(self._parts.store, bundle)
        if owner is None or owner.broker_id != transfer.source:
            whose = "nobody" if owner is None else owner.broker_id
            raise NotOwner(f"{bundle} is owned by {whose}, not by {transfer.source}")
        limit_s = rules.unload_s + rules.load_s + 4 * rules.order_s
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
        self._driven.add(move.move_id)
        try:
            record = await self._reserve(move)
            destination = await self._drive(record, BEGUN, transfer.footprint.throughput_bytes)
        finally:
            self._driven.discard(move.move_id)
        return {"bundle": str(bundle), "to": destination}

    async def _reserve(self, move: MoveNode) -> MoveRecord:
        try:
            return await self._moves.begin(move, self._leadership.guard)
        except MultiFailed as error:
            if error.index == 0:
                raise Fenced(f"another leader was elected: {error}") from error
            raise
        except Ambiguous:
            found = await self._moves.read(move.move_id)
            if found is None:
                raise
            return found

    async def _drive(self, record: MoveRecord, begin: Step, throughput_bytes: float) -> str:
        bundle = record.move.bundle
        run = MoveRun(
            self._parts,
            self._leadership,
            self._moves,
            self._dispatch,
            record=record,
            choose=self._choose,
        )
        try:
            destination = await run.drive(begin)
        finally:
            if run.has_disturbed:
                self._memory.disturbed(bundle)
        self._memory.given(bundle, destination)
        self._memory.moved(bundle, throughput_bytes)
        return destination

    async def adopt(self) -> None:
        """Take over every move that nobody here drives, and finish or abort it.

        Those of an earlier leader when leading begins; later on those of ours whose driving ended
        in an error of the store.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        # Our copy may be behind what the earlier leader wrote last.
        await self._parts.store.sync(paths.MOVES)
        await self._moves.wait_synced()
        async with asyncio.TaskGroup() as group:
            for record in self._moves.all:
                move_id = record.move.move_id
                if move_id not in self._driven:
                    group.create_task(self._adopt(record), name=f"adopt {move_id}")

    async def _adopt(self, record: MoveRecord) -> None:
        with suppress_non_fatal():
            await self._take_over(record)

    async def _take_over(self, record: MoveRecord) -> None:
        move = record.move
        decision = Transfer(
            bundle=move.bundle,
            source=move.from_broker,
            destination=move.to_broker,
            reason=Reason.RESERVED,
            detail=f"begun at epoch {move.epoch}, taken over",
            footprint=NO_LOAD,
            source_before=NO_LOAD,
            destination_before=NO_LOAD,
        )
        self._driven.add(move.move_id)
        try:
            adopted = await self._moves.adopt(
                record, self._leadership.epoch, self._leadership.guard
            )
            with self._deeds.written_down(decision):
                await self._drive(adopted, ADOPTED, 0.0)
        except MultiFailed as error:
            if error.index == 0:
                raise Fenced(f"another leader was elected: {error}") from error
            log.debug("move %s has ended by itself", move.move_id)
        finally:
            self._driven.discard(move.move_id)
