"""Execution of decisions on a Pulsar cluster, by its admin API alone.

The cluster does not know our epoch: a request in flight when another process is elected is still
carried out. So everything is checked again right before a request, requests are few at a time, and
the outcome is read from owner nodes and rings, never from the answer alone.

Docs: pulsar-admin-api.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.foreign_balancer import ClusterBalancer
from broker_ctl.attach.outcome_verifier import OutcomeVerifier
from broker_ctl.attach.reader import claiming
from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decisions import DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerDependencies, Choose, OwnMoves
from broker_ctl.balancer.execution.executor import NO_WAITS, NOTHING_TO_SPLIT, ExecutionLog, Waits
from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.membership.foreign_brokers import ForeignBroker
from broker_ctl.core.cluster.decisions import Action, Split, Transfer
from broker_ctl.core.history.rows import Outcome
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.names import BundleRange
from broker_ctl.core.strategies.load_managers import EXTENSIBLE
from broker_ctl.errors import (
    NoBroker,
    PeerRefused,
    PeerUnreachable,
)
from broker_ctl.store.records.broker_ctl import MoveNode

log = logging.getLogger(__name__)

_MAX_CONCURRENT: Final = 4
# The only algorithm of Pulsar that takes the positions of a split.
_BY_POSITIONS: Final = "specified_positions_divide"


@dataclass(frozen=True, slots=True)
class Attachment:
    """Access to a cluster run by Pulsar.

    Attributes:
        admin: its admin API.
        cluster_balancer: the load balancer of the cluster, and whether we may act.
        moves: moves driven by this process.
    """

    admin: PulsarAdmin
    cluster_balancer: ClusterBalancer
    moves: OwnMoves

    def build_executor(
        self,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        recorder: DecisionRecorder,
        _: Choose,
    ) -> "PulsarExecutor":
        """See `ExecutorFactory`; the cluster decides on the receiver."""
        return PulsarExecutor(self, dependencies, leadership, memory, recorder)


class PulsarExecutor:
    """`Executor` of one term; supports moves and splits only."""

    def __init__(
        self,
        attachment: Attachment,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        recorder: DecisionRecorder,
    ) -> None:
        self._admin = attachment.admin
        self._cluster_balancer = attachment.cluster_balancer
        self._moves = attachment.moves
        self._dependencies = dependencies
        self._leadership = leadership
        self._memory = memory
        self._recorder = recorder
        self._verifier = OutcomeVerifier(dependencies)
        self._execution_log = ExecutionLog(
            recorder, dependencies.clock, _MAX_CONCURRENT, dependencies.tracer
        )
        self._numbers = count(1)
        self._ranges: WeakValueDictionary[BundleRange, asyncio.Lock] = WeakValueDictionary()

    async def blocked_reason(self) -> str:
        """See `Executor.blocked_reason`."""
        return await self._cluster_balancer.blocked_reason()

    async def execute_all(
        self, decisions: Iterable[Action], waits: Waits = NO_WAITS
    ) -> Mapping[Action, Reply]:
        """See `Executor.execute_all`; nothing while it is blocked.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this process does not lead any more.
        """
        if why := await self.blocked_reason():
            for decision in decisions:
                self._recorder.record(decision, Outcome("held_back", why))
            return {}
        return await self._execution_log.execute_all(self._execute, decisions, waits)

    async def execute(self, decision: Action) -> Reply:
        """See `Executor.execute`.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            LeadershipSuspended: the connection was lost; the cluster got no request.
            AuthorityLost: this process does not lead any more.
        """
        return await self._execution_log.execute(self._execute, decision)

    async def adopt(self) -> None:
        """Nothing to do: the cluster carries out the requests of an earlier leader by itself."""

    async def _execute(self, decision: Action) -> Reply:
        async with self._serialised(decision):
            # First: checks made before a long wait are outdated after it.
            await self._leadership.wait_deciding()
            if why := await self.blocked_reason():
                raise PeerRefused("HeldBack", why)
            match decision:
                case Transfer():
                    with self._memory.moving(decision.bundle, decision.reason):
                        return await self._transfer(decision)
                case Split():
                    return await self._split(decision)
                case _:
                    raise PeerRefused(
                        "NotPossible", f"Pulsar has no such request: {decision.sentence}"
                    )

    @asynccontextmanager
    async def _serialised(self, decision: Action) -> AsyncIterator[None]:
        """Serialise unloads of equal ranges: many releases keep the destination by range alone.

        With two namespaces of the same boundaries, which is usual, the second unload would
        overwrite the destination of the first (docs: pulsar-placement).

        Raises:
            BundleMoving: the bundle is being moved already.
        """
        if not isinstance(decision, Transfer):
            yield
            return
        self._moves.check_idle(decision.bundle)
        turn = self._ranges.setdefault(decision.bundle.range, asyncio.Lock())
        async with turn:
            yield

    # Moves.

    async def _transfer(self, transfer: Transfer) -> Reply:
        """Check everything again, as the view is some time old."""
        bundle, rules = transfer.bundle, self._dependencies.rules()
        ring = await self._verifier.ring_with(bundle)
        owner = await self._verifier.owned_by(bundle, transfer.source)
        if not self._dependencies.can_receive(transfer.destination):
            raise NoBroker(f"{transfer.destination} is gone or drained")
        limit_s = rules.unload_s + rules.load_s
        move = MoveNode(
            move_id=f"{self._leadership.epoch:010d}-{next(self._numbers):06d}",
            bundle=bundle,
            epoch=self._leadership.epoch,
            from_broker=transfer.source,
            token=owner.token,
            to_broker=transfer.destination,
            deadline_ms=self._dependencies.clock.wall_ms() + round(limit_s * 1000),
            ring_version=ring.version,
        )
        with self._moves.recording_move(move):
            receiver = await self._unload(move)
        self._memory.record_assigned(bundle, receiver)
        self._memory.record_move(bundle, transfer.load_vector.throughput_bytes)
        if receiver != transfer.destination:
            self._moves.misdirected += 1
            raise PeerRefused(
                "WentElsewhere",
                f"{bundle} went to {receiver}: the cluster ignored {transfer.destination}",
            )
        return {"bundle": str(bundle), "to": receiver}

    async def _unload(self, move: MoveNode) -> str:
        """Unload and return the new owner; an unanswered request may have been carried out."""
        last_error: PeerUnreachable | None = None
        # Once answered, the bundle is unloaded; the broker of the next lookup acquires it.
        limit_s = self._dependencies.rules().load_s
        self._leadership.check()
        self._memory.record_unload(move.bundle)
        async with self._claiming(move):
            try:
                await self._admin.unload(move.bundle, move.to_broker)
            except PeerUnreachable as error:
                last_error, limit_s = error, limit_s + self._dependencies.rules().unload_s
                log.info("no answer to the unload of %s: %s; checking it", move.bundle, error)
            owner = await self._verifier.next_owner(move.bundle, move.token, limit_s)
        if owner is not None and owner.token != move.token:
            return owner.broker_id
        if last_error is not None:
            raise last_error
        if owner is not None:
            raise PeerRefused(
                "NotUnloaded",
                f"{move.from_broker} still owns {move.bundle} although it reported success",
            )
        raise PeerRefused(
            "NotTaken",
            f"{move.bundle} was unloaded from {move.from_broker} but has no owner yet: no client "
            "has looked it up; the next lookup places it",
        )

    def _claiming(self, move: MoveNode) -> AbstractAsyncContextManager[None]:
        """Claims for the receiver, where the first lookup decides who it is."""
        peer = self._dependencies.registry.peer(move.to_broker)
        if isinstance(peer, ForeignBroker) and peer.manager == EXTENSIBLE.class_name:
            return nullcontext()
        return claiming(
            self._admin,
            move.bundle,
            move.to_broker,
            self._leadership.check,
            rng=self._dependencies.rng,
        )

    # Splits.

    async def _split(self, split: Split) -> Reply:
        """The children appear in the ring; an unanswered request may have been carried out."""
        bundle, rules = split.bundle, self._dependencies.rules()
        await self._verifier.ring_with(bundle)
        await self._verifier.owned_by(bundle, split.owner)
        self._leadership.check()
        last_error: PeerUnreachable | None = None
        positions = split.boundaries if split.algorithm == _BY_POSITIONS else ()
        self._memory.splitting.add(bundle)
        try:
            try:
                await self._admin.split(bundle, split.algorithm, positions)
            except PeerUnreachable as error:
                last_error = error
                log.info("no answer to the split of %s: %s; checking the outcome", bundle, error)
            limit_s = 0.0 if last_error is None else rules.order_s + rules.load_s
            children = await self._verifier.children(bundle, limit_s)
        finally:
            self._memory.splitting.discard(bundle)
        if children:
            return {"bundle": str(bundle), "children": [str(child) for child in children]}
        if last_error is not None:
            raise last_error
        raise PeerRefused(NOTHING_TO_SPLIT, f"{split.owner}: no boundary would part {bundle}")
