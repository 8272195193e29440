"""Transfers: what is sent to the old owner and to the new one, and how a move ends."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from broker_ctl.balancer.context.dependencies import BalancerDependencies, Choose
from broker_ctl.coordination.directives import MoveRecord, Moves
from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.membership.cluster import Peers
from broker_ctl.core.machines.move import MoveAction, MoveEvent, MoveState, Step, step
from broker_ctl.core.model.commands import (
    Command,
    PrepareTransfer,
    ReceiveBundle,
    ReleaseBundle,
    Reply,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    BrokerCtlError,
    BundleMoving,
    BundleReclaimable,
    Fenced,
    MultiFailed,
    NoBroker,
    PeerError,
    PeerRefused,
    PeerUnreachable,
)
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.tracing.spans import SpanKind, child_span

log = logging.getLogger(__name__)

# Sends the commands of one term to brokers.


class Dispatch:
    """Sends commands while this broker leads; none while its leadership is suspended."""

    def __init__(self, peers: Peers, leadership: Leadership) -> None:
        self._peers = peers
        self._leadership = leadership

    async def send(self, broker_id: str, order: Command, timeout_s: float) -> Reply:
        """Send one command; this broker answers its own commands like any other broker.

        Raises:
            AuthorityLost: this broker does not lead any more; nothing was sent.
            PeerUnreachable: there was no answer in time; whether it was executed is unknown.
            PeerRefused: the broker refused.
        """
        await self._leadership.wait_deciding()
        try:
            with child_span(f"command {order.verb}", SpanKind.CLIENT, peer=broker_id):
                async with asyncio.timeout(timeout_s):
                    return await self._peers.send(broker_id, order, timeout_s)
        except TimeoutError as error:
            text = f"{broker_id}: no answer to {order.verb} within {timeout_s:.1f} s"
            raise PeerUnreachable(text) from error
        except PeerError:
            raise
        except BrokerCtlError as error:
            raise PeerRefused(type(error).__name__, f"{broker_id}: {error}") from error


# Drives one move to its end (docs: move); `core/machines/move.py` decides on the steps.


_T = TypeVar("_T")

# Before the same receiver gets the command again.
_PAUSE_S: Final = 0.25
_MAX_ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class CurrentOwner:
    """Owner of a bundle, and the fencing token of its node."""

    broker_id: str
    token: int


async def read_owner(store: MetadataStore, bundle: Bundle) -> CurrentOwner | None:
    """Read the owner node after a sync; a cache may be too old here.

    Raises:
        CorruptRecord: the node does not decode.
    """
    path = paths.ownership(bundle)
    await store.sync(path)
    node = await store.get(path)
    if node is None:
        return None
    record = NamespaceEphemeralData.decode(node.path, node.data)
    return CurrentOwner(record.urls.broker_id, node.stat.czxid)


class MoveRun:
    """One move in one term.

    Attributes:
        has_released: the source was commanded to release the bundle.
    """

    def __init__(
        self,
        dependencies: BalancerDependencies,
        leadership: Leadership,
        moves: Moves,
        dispatch: Dispatch,
        *,
        record: MoveRecord,
        choose: Choose,
    ) -> None:
        self._dependencies = dependencies
        self._leadership = leadership
        self._moves = moves
        self._dispatch = dispatch
        self._record = record
        self._choose = choose
        self._attempts: Counter[str] = Counter()
        self._grace_end_s: float | None = None
        self._last_error: PeerError | NoBroker | None = None
        self._steps: list[str] = []
        self.has_released = False

    async def drive(self, begin: Step) -> str:
        """Run the move from ``begin``; returns the broker that serves the bundle.

        Raises:
            PeerError, NoBroker, BundleMoving: reason why the move was aborted.
            Fenced, AuthorityLost: this broker does not lead any more; the next leader takes over.
        """
        state, actions = begin
        while actions:
            (action,) = actions
            event = await self._execute(action)
            self._steps.append(f"{state}, {event}")
            state, actions = step(state, event, self._history)
        if state is MoveState.ABORTED:
            why = self._last_error or BundleMoving(f"{self._record.move.bundle}: {self._history}")
            log.info("move %s aborted: %s", self._record.move.move_id, why)
            raise why
        return self._record.move.to_broker

    @property
    def _history(self) -> str:
        return " > ".join(self._steps)

    async def _execute(self, action: MoveAction) -> MoveEvent:
        move, rules = self._record.move, self._dependencies.rules()
        match action:
            case MoveAction.PREPARE:
                prepare = PrepareTransfer(*self._command_fields)
                return await self._send(move.to_broker, prepare, rules.order_s)
            case MoveAction.RELEASE:
                self.has_released = True
                unload_ms = round(rules.unload_s * 1000)
                release = ReleaseBundle(*self._command_fields, move.token, unload_ms)
                # If closing fails, fencing takes its time too.
                limit_s = rules.unload_s + 2 * rules.order_s
                return await self._send(move.from_broker, release, limit_s)
            case MoveAction.RECEIVE:
                return await self._receive(rules.order_s + rules.load_s)
            case MoveAction.LOOK:
                return await self._retry_store(self._inspect)
            case MoveAction.REROUTE:
                return await self._retry_store(self._reroute)
            case MoveAction.CLOSE:
                return await self._retry_store(self._close)

    # Commands.

    @property
    def _command_fields(self) -> tuple[int, Bundle, str, int]:
        """Fields of every command: epoch, bundle, move id, version of its record."""
        move = self._record.move
        return self._leadership.epoch, move.bundle, move.move_id, self._record.version

    async def _send(self, broker_id: str, command: Command, timeout_s: float) -> MoveEvent:
        try:
            await self._dispatch.send(broker_id, command, timeout_s)
        except PeerUnreachable as error:
            self._last_error = error
            return MoveEvent.UNANSWERED
        except PeerError as error:
            self._last_error = error
            return MoveEvent.REFUSED
        return MoveEvent.EXECUTED

    async def _receive(self, timeout_s: float) -> MoveEvent:
        move = self._record.move
        if self._attempts[move.to_broker]:
            await asyncio.sleep(_PAUSE_S)
        self._attempts[move.to_broker] += 1
        return await self._send(move.to_broker, ReceiveBundle(*self._command_fields), timeout_s)

    @property
    def _can_retry(self) -> bool:
        broker_id = self._record.move.to_broker
        if not self._dependencies.can_receive(broker_id):
            return False
        return self._attempts[broker_id] < _MAX_ATTEMPTS or self._is_in_grace

    @property
    def _is_in_grace(self) -> bool:
        """Whether the source's session expired recently: no other broker may acquire then (I7)."""
        last_error, now_s = self._last_error, self._dependencies.clock.now_s()
        reclaimable = BundleReclaimable.__name__
        if not isinstance(last_error, PeerRefused) or last_error.kind != reclaimable:
            return False
        if self._grace_end_s is None:
            rules = self._dependencies.rules()
            self._grace_end_s = now_s + rules.reclaim_grace_s + rules.order_s
        return now_s < self._grace_end_s

    # The store.

    async def _retry_store(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat until the store answers, while this broker leads."""

        async def attempt() -> _T:
            await self._leadership.wait_deciding()
            return await work()

        what = f"move {self._record.move.move_id} waits for the store"
        return await retry(attempt, what, rng=self._dependencies.rng, judge=is_undecided)

    async def _inspect(self) -> MoveEvent:
        """Read the owner node first: if the destination has it, a missing record means success."""
        owner = await read_owner(self._dependencies.store, self._record.move.bundle)
        record = await self._moves.read(self._record.move.move_id)
        if record is not None and record.version != self._record.version:
            if record.move.epoch != self._leadership.epoch:
                raise Fenced(f"move {record.move.move_id} is driven at epoch {record.move.epoch}")
            # This leader wrote it, and the answer was lost.
            self._record = record
        move = self._record.move
        if owner is not None and owner.broker_id == move.to_broker:
            return MoveEvent.AT_DESTINATION
        if record is None:
            return MoveEvent.OVER
        if owner is None:
            return MoveEvent.FREE if self._can_retry else MoveEvent.STRAY
        return MoveEvent.AT_SOURCE if owner.token == move.token else MoveEvent.ELSEWHERE

    async def _reroute(self) -> MoveEvent:
        move = self._record.move
        try:
            other = await self._choose(move.bundle, frozenset({*self._attempts, move.to_broker}))
        except NoBroker as error:
            self._last_error = error
            return MoveEvent.NO_RECEIVER
        rerouted = replace(self._record, move=replace(move, to_broker=other))
        try:
            self._record = await self._moves.adopt(
                rerouted, self._leadership.epoch, self._leadership.guard
            )
        except MultiFailed as error:
            self._check_fenced(error)
            return MoveEvent.REFUSED
        log.info("move %s goes to %s instead of %s", move.move_id, other, move.to_broker)
        return MoveEvent.REROUTED

    async def _close(self) -> MoveEvent:
        try:
            await self._moves.end(self._record, self._leadership.guard)
        except MultiFailed as error:
            self._check_fenced(error)
            raise
        return MoveEvent.CLOSED

    @staticmethod
    def _check_fenced(error: MultiFailed) -> None:
        """The guard is the first operation of every transaction."""
        if error.index == 0:
            raise Fenced(f"another leader was elected: {error}") from error
