"""Execution of decisions: moves, splits, merges, placements; each outcome is recorded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Final

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decisions import DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerDependencies, Choose
from broker_ctl.balancer.execution.transfer import Dispatch, MoveRun, read_owner
from broker_ctl.clock import Clock
from broker_ctl.coordination.directives import MoveRecord, Moves
from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.membership.cluster import Peers
from broker_ctl.core.cluster.decisions import (
    Action,
    Assign,
    Merge,
    Reason,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.history.rows import Outcome
from broker_ctl.core.machines.move import ADOPTED, BEGUN, Step
from broker_ctl.core.model.commands import AcquireBundle, MergeBundles, Reply, SplitBundle
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    BrokerCtlError,
    BundleGone,
    BundleMoving,
    Fenced,
    HotTopic,
    InvariantBroken,
    MultiFailed,
    NotOwner,
    PeerRefused,
)
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import MoveNode
from broker_ctl.tasks import run_all
from broker_ctl.tracing.spans import Tracer, caused_span, child_span, current_traceparent

log = logging.getLogger(__name__)

# Runs decisions and records the outcome of each, for any executor.


# By decision, those that must have ended before it starts.
Waits = Mapping[Action, Sequence[Action]]
NO_WAITS: Final[Waits] = MappingProxyType({})
# Executes one decision; raises the reason for a failure.
ExecuteOne = Callable[[Action], Awaitable[Reply]]
# No boundary would split a bundle: the owner has answered, and nothing was done.
NOTHING_TO_SPLIT: Final = "NothingToSplit"
_FUTILE: Final = {HotTopic.__name__: Reason.HOT_TOPIC, NOTHING_TO_SPLIT: Reason.INDIVISIBLE}


class ExecutionLog:
    """Runs and records the decisions of one term.

    Args:
        max_concurrent: decisions at a time; moves are limited by the budgets of the plan.
        tracer: begins the trace of each decision, unless a request has; None: nothing is traced.
    """

    def __init__(
        self,
        recorder: DecisionRecorder,
        clock: Clock,
        max_concurrent: int,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer
        self._recorder = recorder
        self._clock = clock
        self._max_concurrent = max_concurrent

    async def execute_all(
        self, execute_one: ExecuteOne, decisions: Iterable[Action], waits: Waits = NO_WAITS
    ) -> Mapping[Action, Reply]:
        """Execute all decisions; returns the successful ones with their replies.

        A decision starts once those that it waits for have ended; where one of them failed, it is
        held back: there is no room for it.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        decided = list(decisions)
        room = asyncio.Semaphore(self._max_concurrent)
        done: dict[Action, Reply] = {}
        ended = {decision: asyncio.Event() for decision in decided}

        async def one(decision: Action) -> None:
            try:
                for earlier in waits.get(decision, ()):
                    await ended[earlier].wait()
                missing = [earlier for earlier in waits.get(decision, ()) if earlier not in done]
                if missing:
                    self._hold_back(decision, missing[0])
                    return
                async with room:
                    with suppress_non_fatal():
                        done[decision] = await self.execute(execute_one, decision)
            finally:
                ended[decision].set()

        await run_all((f"{each.kind} {each.bundles[0]}", one(each)) for each in decided)
        return done

    def _hold_back(self, decision: Action, missing: Action) -> None:
        text = f"{missing.bundles[0]} was to make room for it, and did not leave"
        self._recorder.record(decision, Outcome("held_back", text))

    async def execute(self, execute_one: ExecuteOne, decision: Action) -> Reply:
        """Execute one decision and record its outcome; returns the reply.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """
        with self.recording(decision):
            return await execute_one(decision)

    @contextmanager
    def recording(self, decision: Action, traceparent: str = "") -> Iterator[None]:
        """Record the outcome of the block as that of the decision.

        ``traceparent`` is the context in which an earlier leader began it.
        """
        began_s = self._clock.now_s()
        try:
            with caused_span(
                self._tracer,
                f"decision {decision.kind}",
                parent=traceparent,
                bundle=str(decision.bundles[0]),
                reason=decision.reason,
            ):
                yield
        except BrokerCtlError as error:
            took_s = self._clock.now_s() - began_s
            why = _futile(error) if isinstance(decision, Split) else None
            if why is None:
                self._recorder.record(decision, Outcome("failed", str(error), took_s))
            else:
                # Only the owner knows its topics: that it splits nothing is an answer, no failure.
                said = error.reason if isinstance(error, PeerRefused) else str(error)
                skip = Skip(str(decision.bundles[0]), why, said)
                self._recorder.record(skip, Outcome("skipped", took_s=took_s))
            raise
        self._recorder.record(decision, Outcome("done", took_s=self._clock.now_s() - began_s))


def _futile(error: BrokerCtlError) -> Reason | None:
    """Why a split can have no effect; None: it failed."""
    kind = error.kind if isinstance(error, PeerRefused) else type(error).__name__
    return _FUTILE.get(kind)


@contextmanager
def suppress_non_fatal() -> Iterator[None]:
    """Log an error of one decision, so that others go on; errors that end the term are raised."""
    try:
        yield
    except (AuthorityLost, Fenced):
        raise
    except BrokerCtlError as error:
        log.debug("a decision failed: %s", error)


# Execution of decisions: moves, splits, merges, placements; each outcome is recorded.


_MAX_CONCURRENT: Final = 32


@dataclass(frozen=True, slots=True)
class ExecutorConnections:
    """Connections to the brokers of this cluster.

    Attributes:
        moves: the records of moves. Already started.
        peers: sends commands to brokers, this one included.
    """

    moves: Moves
    peers: Peers

    def build_executor(
        self,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        recorder: DecisionRecorder,
        choose: Choose,
    ) -> "BundleExecutor":
        """See `ExecutorFactory`."""
        return BundleExecutor(self, dependencies, leadership, memory, recorder, choose=choose)


class BundleExecutor:
    """`Executor` of one term for brokers of broker-ctl, by commands to them.

    Args:
        choose: chooses another receiver for a move whose receiver failed.
    """

    def __init__(
        self,
        connections: ExecutorConnections,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        memory: BundleHistory,
        recorder: DecisionRecorder,
        *,
        choose: Choose,
    ) -> None:
        self._dependencies = dependencies
        self._moves = connections.moves
        self._leadership = leadership
        self._memory = memory
        self._choose = choose
        self._dispatch = Dispatch(connections.peers, leadership)
        self._execution_log = ExecutionLog(
            recorder, dependencies.clock, _MAX_CONCURRENT, dependencies.tracer
        )
        self._numbers = count(1)
        self._driven: set[str] = set()

    async def blocked_reason(self) -> str:
        """See `Executor.blocked_reason`: nothing blocks this executor."""
        return ""

    async def execute_all(
        self, decisions: Iterable[Action], waits: Waits = NO_WAITS
    ) -> Mapping[Action, Reply]:
        """See `ExecutionLog.execute_all`.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        return await self._execution_log.execute_all(self._execute, decisions, waits)

    async def execute(self, decision: Action) -> Reply:
        """See `ExecutionLog.execute`; returns the owner's reply if it was asked.

        Raises:
            OwnershipError, PeerError, NoBroker, StoreError: why it was not done.
            Fenced, AuthorityLost: this broker does not lead any more.
        """
        return await self._execution_log.execute(self._execute, decision)

    async def _execute(self, decision: Action) -> Reply:
        await self._leadership.wait_deciding()
        match decision:
            case Transfer():
                with self._memory.moving(decision.bundle, decision.reason):
                    return await self._transfer(decision)
            case Split():
                return await self._split(decision)
            case Merge():
                return await self._merge(decision)
            case Assign():
                return await self._assign(decision)
            case Unload():
                raise InvariantBroken(f"no plan has such a decision: {decision.sentence}")

    # Placements, splits and merges.

    async def _assign(self, assign: Assign) -> Reply:
        rules = self._dependencies.rules()
        command = AcquireBundle(self._leadership.epoch, assign.bundle)
        reply = await self._dispatch.send(assign.destination, command, rules.order_s + rules.load_s)
        self._memory.record_assigned(assign.bundle, assign.destination)
        return reply

    async def _split(self, split: Split) -> Reply:
        rules, bundle = self._dependencies.rules(), split.bundle
        command = SplitBundle(self._leadership.epoch, bundle, split.algorithm, split.boundaries)
        with self._reserving(bundle):
            try:
                timeout_s = rules.order_s + rules.load_s
                reply = await self._dispatch.send(split.owner, command, timeout_s)
            except PeerRefused as error:
                if error.kind == HotTopic.__name__:
                    self._memory.record_hot_topic(bundle, error.reason)
                raise
        if not reply.get("children"):
            raise PeerRefused(NOTHING_TO_SPLIT, f"{split.owner}: no boundary would split {bundle}")
        return reply

    async def _merge(self, merge: Merge) -> Reply:
        """Merge at the owner, whose transaction checks everything again: the view may be old."""
        rules = self._dependencies.rules()
        command = MergeBundles(self._leadership.epoch, merge.left, merge.right)
        with self._reserving(merge.left, merge.right):
            reply = await self._dispatch.send(merge.owner, command, rules.order_s + rules.load_s)
        self._memory.record_merge(merge.left, merge.right, merge.owner)
        return reply

    @contextmanager
    def _reserving(self, *bundles: Bundle) -> Iterator[None]:
        """Keep the bundles out of other plans until the command is answered."""
        self._memory.splitting.update(bundles)
        try:
            yield
        finally:
            self._memory.splitting.difference_update(bundles)

    # Moves.

    async def _transfer(self, transfer: Transfer) -> Reply:
        """Check everything again, since the view may be old, and create the record."""
        bundle, rules = transfer.bundle, self._dependencies.rules()
        if (other := self._moves.of(bundle)) is not None:
            raise BundleMoving(f"{bundle}: {other.move.bundle} is being moved already")
        ring = await self._dependencies.ring_of(bundle.namespace)
        if bundle not in ring:
            raise BundleGone(f"{bundle} is not a bundle of its namespace")
        owner = await read_owner(self._dependencies.store, bundle)
        if owner is None or owner.broker_id != transfer.source:
            owner_name = "nobody" if owner is None else owner.broker_id
            raise NotOwner(f"{bundle} is owned by {owner_name}, not by {transfer.source}")
        limit_s = rules.unload_s + rules.load_s + 4 * rules.order_s
        move = MoveNode(
            move_id=f"{self._leadership.epoch:010d}-{next(self._numbers):06d}",
            bundle=bundle,
            epoch=self._leadership.epoch,
            from_broker=transfer.source,
            token=owner.token,
            to_broker=transfer.destination,
            deadline_ms=self._dependencies.clock.wall_ms() + round(limit_s * 1000),
            ring_version=ring.version,
            traceparent=current_traceparent(),
        )
        self._driven.add(move.move_id)
        try:
            record = await self._reserve(move)
            destination = await self._drive(record, BEGUN, transfer.load_vector.throughput_bytes)
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
        move, bundle = record.move, record.move.bundle
        run = MoveRun(
            self._dependencies,
            self._leadership,
            self._moves,
            self._dispatch,
            record=record,
            choose=self._choose,
        )
        try:
            with child_span(
                "move", move=move.move_id, source=move.from_broker, destination=move.to_broker
            ):
                destination = await run.drive(begin)
        finally:
            if run.has_released:
                self._memory.record_unload(bundle)
        self._memory.record_assigned(bundle, destination)
        self._memory.record_move(bundle, throughput_bytes)
        return destination

    async def adopt(self) -> None:
        """Take over every move that this process does not drive, and finish or abort it.

        At the start of a term these are moves of an earlier leader; later, own moves whose driver
        failed with an error of the store.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        # Sync first: the local copy may lag behind the last writes of the earlier leader.
        await self._dependencies.store.sync(paths.MOVES)
        await self._moves.wait_synced()
        await run_all(
            (f"adopt {record.move.move_id}", self._adopt(record))
            for record in self._moves.all
            if record.move.move_id not in self._driven
        )

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
            load_vector=NO_LOAD,
            source_before=NO_LOAD,
            destination_before=NO_LOAD,
        )
        self._driven.add(move.move_id)
        try:
            adopted = await self._moves.adopt(
                record, self._leadership.epoch, self._leadership.guard
            )
            with self._execution_log.recording(decision, move.traceparent):
                await self._drive(adopted, ADOPTED, 0.0)
        except MultiFailed as error:
            if error.index == 0:
                raise Fenced(f"another leader was elected: {error}") from error
            log.debug("move %s has ended already", move.move_id)
        finally:
            self._driven.discard(move.move_id)
