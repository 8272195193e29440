"""Driving one move to its end (docs: move). `core/machines/move.py` judges, this drives."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from broker_ctl.balancer.context.dependencies import BalancerDependencies, Choose
from broker_ctl.balancer.execution.dispatch import Dispatch
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.replicated.moves import MoveRecord, Moves
from broker_ctl.core.machines.move import Action, Event, State, Step, step
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Command, PrepareTransfer, ReceiveBundle, ReleaseBundle
from broker_ctl.errors import (
    Ambiguous,
    BundleMoving,
    BundleReclaimable,
    Fenced,
    MultiFailed,
    NoBroker,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    StoreError,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.ownership import NamespaceEphemeralData

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_RETRY_S: Final = 0.25
_ASKS: Final = 2


@dataclass(frozen=True, slots=True)
class StandingOwner:
    """Whose an owner node is, and its token."""

    broker_id: str
    token: int


async def newest_owner(store: MetadataStore, bundle: Bundle) -> StandingOwner | None:
    """The owner node behind all that was committed so far; no cache is new enough here.

    Raises:
        CorruptRecord: somebody's node that nobody can read.
    """
    path = paths.ownership(bundle)
    await store.sync(path)
    node = await store.get(path)
    if node is None:
        return None
    record = NamespaceEphemeralData.decode(node.path, node.data)
    return StandingOwner(record.urls.broker_id, node.stat.czxid)


class MoveRun:
    """One move under one leading.

    Attributes:
        has_disturbed: the source was told to give the bundle up.
    """

    def __init__(
        self,
        parts: BalancerDependencies,
        leadership: Leadership,
        moves: Moves,
        dispatch: Dispatch,
        *,
        record: MoveRecord,
        choose: Choose,
    ) -> None:
        self._parts = parts
        self._leadership = leadership
        self._moves = moves
        self._dispatch = dispatch
        self._record = record
        self._choose = choose
        self._asked: Counter[str] = Counter()
        self._grace_end_s: float | None = None
        self._complaint: PeerError | NoBroker | None = None
        self._story: list[str] = []
        self.has_disturbed = False

    async def drive(self, begin: Step) -> str:
        """Carry the move out from ``begin``; answers with the broker that serves the bundle.

        Raises:
            PeerError, NoBroker, BundleMoving: it was aborted, and why.
            Fenced, AuthorityLost: this broker does not lead any more; who does takes over.
        """
        state, actions = begin
        while actions:
            (action,) = actions
            event = await self._act(action)
            self._story.append(f"{state}, {event}")
            state, actions = step(state, event, self._told)
        if state is State.ABORTED:
            why = self._complaint or BundleMoving(f"{self._record.move.bundle}: {self._told}")
            log.info("move %s aborted: %s", self._record.move.move_id, why)
            raise why
        return self._record.move.to_broker

    @property
    def _told(self) -> str:
        return " > ".join(self._story)

    async def _act(self, action: Action) -> Event:
        move, rules = self._record.move, self._parts.rules()
        match action:
            case Action.PREPARE:
                prepare = PrepareTransfer(*self._named)
                return await self._order(move.to_broker, prepare, rules.order_s)
            case Action.RELEASE:
                self.has_disturbed = True
                unload_ms = round(rules.unload_s * 1000)
                release = ReleaseBundle(*self._named, move.token, unload_ms)
                # Fencing, where closing failed, takes its time too.
                limit_s = rules.unload_s + 2 * rules.order_s
                return await self._order(move.from_broker, release, limit_s)
            case Action.RECEIVE:
                return await self._receive(rules.order_s + rules.load_s)
            case Action.LOOK:
                return await self._insist(self._look)
            case Action.REROUTE:
                return await self._insist(self._reroute)
            case Action.CLOSE:
                return await self._insist(self._close)

    # Orders.

    @property
    def _named(self) -> tuple[int, Bundle, str, int]:
        """What every order says: of which leader, of which move, at which version of its record."""
        move = self._record.move
        return self._leadership.epoch, move.bundle, move.move_id, self._record.version

    async def _order(self, broker_id: str, order: Command, timeout_s: float) -> Event:
        try:
            await self._dispatch.send(broker_id, order, timeout_s)
        except PeerUnreachable as error:
            self._complaint = error
            return Event.UNANSWERED
        except PeerError as error:
            self._complaint = error
            return Event.REFUSED
        return Event.OBEYED

    async def _receive(self, timeout_s: float) -> Event:
        move = self._record.move
        if self._asked[move.to_broker]:
            await asyncio.sleep(_RETRY_S)
        self._asked[move.to_broker] += 1
        return await self._order(move.to_broker, ReceiveBundle(*self._named), timeout_s)

    @property
    def _can_ask_again(self) -> bool:
        broker_id = self._record.move.to_broker
        if not self._parts.can_receive(broker_id):
            return False
        return self._asked[broker_id] < _ASKS or self._is_in_grace

    @property
    def _is_in_grace(self) -> bool:
        """The source's session expired in the middle: nobody else would be let in either (I7)."""
        complaint, now_s = self._complaint, self._parts.clock.now_s()
        reclaimable = BundleReclaimable.__name__
        if not isinstance(complaint, PeerRefused) or complaint.kind != reclaimable:
            return False
        if self._grace_end_s is None:
            rules = self._parts.rules()
            self._grace_end_s = now_s + rules.reclaim_grace_s + rules.order_s
        return now_s < self._grace_end_s

    # The store.

    async def _insist(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Until the store answers, as long as this broker leads. Each work may be repeated."""
        while True:
            await self._leadership.wait_deciding()
            try:
                return await work()
            except StoreError as error:
                if not error.can_retry and not isinstance(error, Ambiguous):
                    raise
                log.info("move %s: %s; again", self._record.move.move_id, error)
            await asyncio.sleep(_RETRY_S)

    async def _look(self) -> Event:
        """Owner node first: where it is at the destination, a missing record is what was wanted."""
        owner = await newest_owner(self._parts.store, self._record.move.bundle)
        record = await self._moves.read(self._record.move.move_id)
        if record is not None and record.version != self._record.version:
            if record.move.epoch != self._leadership.epoch:
                raise Fenced(f"move {record.move.move_id} is driven at epoch {record.move.epoch}")
            # Our own write, whose answer was lost.
            self._record = record
        move = self._record.move
        if owner is not None and owner.broker_id == move.to_broker:
            return Event.AT_DESTINATION
        if record is None:
            return Event.OVER
        if owner is None:
            return Event.FREE if self._can_ask_again else Event.STRAY
        return Event.AT_SOURCE if owner.token == move.token else Event.ELSEWHERE

    async def _reroute(self) -> Event:
        move = self._record.move
        try:
            other = await self._choose(move.bundle, frozenset({*self._asked, move.to_broker}))
        except NoBroker as error:
            self._complaint = error
            return Event.NO_RECEIVER
        rerouted = replace(self._record, move=replace(move, to_broker=other))
        try:
            self._record = await self._moves.adopt(
                rerouted, self._leadership.epoch, self._leadership.guard
            )
        except MultiFailed as error:
            self._check_fenced(error)
            return Event.REFUSED
        log.info("move %s goes to %s instead of %s", move.move_id, other, move.to_broker)
        return Event.REROUTED

    async def _close(self) -> Event:
        try:
            await self._moves.end(self._record, self._leadership.guard)
        except MultiFailed as error:
            self._check_fenced(error)
            raise
        return Event.CLOSED

    @staticmethod
    def _check_fenced(error: MultiFailed) -> None:
        """The guard stands first in every transaction."""
        if error.index == 0:
            raise Fenced(f"another leader was elected: {error}") from error
