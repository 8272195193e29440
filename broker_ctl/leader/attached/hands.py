"""Carrying decisions out on a Pulsar cluster, by its admin API alone.

The cluster knows no epoch of ours: a request that is on its way when another process begins to
lead is carried out all the same. So everything is looked at again right before a request, requests
are few at a time, and what came of one is told by the owner nodes and the rings, never by its
answer alone (reference: pulsar-load-management 8.4).
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from broker_ctl.coordination.leadership import Leadership
from broker_ctl.core.bundle import Bundle, BundleRange
from broker_ctl.core.decisions import Action, Split, Transfer
from broker_ctl.core.namespace import Ring
from broker_ctl.errors import (
    BundleGone,
    NoBroker,
    NotOwner,
    OperationTimeout,
    PeerRefused,
    PeerUnreachable,
    StoreError,
)
from broker_ctl.leader.attached.cluster import decode_ring
from broker_ctl.leader.attached.moves import OwnMoves
from broker_ctl.leader.attached.own_balancing import OwnBalancing
from broker_ctl.leader.attached.parts import AdminApi
from broker_ctl.leader.bundle_memory import BundleMemory
from broker_ctl.leader.deeds import Deeds
from broker_ctl.leader.executor import NOTHING_TO_SPLIT
from broker_ctl.leader.outcomes import Outcomes
from broker_ctl.leader.parts import Choose, LeaderParts
from broker_ctl.leader.transfer import StandingOwner, newest_owner
from broker_ctl.ports import Outcome, Reply
from broker_ctl.store import paths
from broker_ctl.store.records.ours import Move
from broker_ctl.store.watching import set_watch

log = logging.getLogger(__name__)

_AT_ONCE: Final = 4
# The only algorithm of Pulsar that is told where to cut.
_BY_POSITIONS: Final = "specified_positions_divide"
# A notification may fall into a lost connection: look again now and then.
_LOOK_S: Final = 1.0
_RETRY_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Attachment:
    """How a cluster that somebody else runs is reached.

    Attributes:
        admin: its admin API.
        own_balancing: what it does by itself, and whether we may act.
        moves: those that this process drives.
    """

    admin: AdminApi
    own_balancing: OwnBalancing
    moves: OwnMoves

    def hands(
        self,
        parts: LeaderParts,
        leadership: Leadership,
        memory: BundleMemory,
        outcomes: Outcomes,
        _: Choose,
    ) -> "AttachedHands":
        """See `leader.parts.MakeHands`; who receives is the cluster's word in the end."""
        return AttachedHands(self, parts, leadership, memory, outcomes)


class AttachedHands:
    """The hands of one leading: `leader.parts.Hands`. Moves and splits are all that there is."""

    def __init__(
        self,
        attachment: Attachment,
        parts: LeaderParts,
        leadership: Leadership,
        memory: BundleMemory,
        outcomes: Outcomes,
    ) -> None:
        self._admin = attachment.admin
        self._own_balancing = attachment.own_balancing
        self._moves = attachment.moves
        self._parts = parts
        self._leadership = leadership
        self._memory = memory
        self._outcomes = outcomes
        self._deeds = Deeds(outcomes, parts.clock, self._act, _AT_ONCE)
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
        first (reference: pulsar-load-management 6.1): equal ranges go one after the other.

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
        ring = await self._ring_with(bundle)
        owner = await self._owned_by(bundle, transfer.source)
        if not self._parts.can_receive(transfer.destination):
            raise NoBroker(f"{transfer.destination} has gone, or is to be emptied")
        limit_s = rules.unload_s + rules.load_s
        move = Move(
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

    async def _moved(self, move: Move) -> str:
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
        owner = await self._next_owner(move.bundle, move.token, limit_s)
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

    async def _next_owner(self, bundle: Bundle, token: int, limit_s: float) -> StandingOwner | None:
        """The owner after the one with ``token``; within the limit, else as it stands then.

        Raises:
            StoreError: the store did not answer to the end: who owns it is not known.
        """
        clock, owner, read_s = self._parts.clock, None, -math.inf
        try:
            async with asyncio.timeout(limit_s), self._news_of(bundle) as changed:
                while True:
                    changed.clear()
                    try:
                        owner = await newest_owner(self._parts.store, bundle)
                    except StoreError as error:
                        if not error.can_retry:
                            raise
                        await asyncio.sleep(_RETRY_S)
                        continue
                    read_s = clock.now_s()
                    if owner is not None and owner.token != token:
                        return owner
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await changed.wait()
        except TimeoutError:
            if clock.now_s() - read_s > 2 * _LOOK_S:
                raise OperationTimeout(
                    f"{bundle} was asked for, and who owns it now is not known: its owner node "
                    f"could not be read within {limit_s:g} s"
                ) from None
            return owner

    @asynccontextmanager
    async def _news_of(self, bundle: Bundle) -> AsyncIterator[asyncio.Event]:
        """Set whenever the owner node of a bundle has changed."""
        changed = asyncio.Event()
        path = paths.ownership(bundle)
        stop_watching = await set_watch(self._parts.store, path, lambda _: changed.set())
        try:
            yield changed
        finally:
            stop_watching()

    # Splits.

    async def _split(self, split: Split) -> Reply:
        """The children show in the ring; a request without an answer may have been carried out."""
        bundle, rules = split.bundle, self._parts.rules()
        await self._ring_with(bundle)
        await self._owned_by(bundle, split.owner)
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
            children = await self._children(bundle, limit_s)
        finally:
            self._memory.splitting.discard(bundle)
        if children:
            return {"bundle": str(bundle), "children": [str(child) for child in children]}
        if complaint is not None:
            raise complaint
        raise PeerRefused(NOTHING_TO_SPLIT, f"{split.owner}: no boundary would part {bundle}")

    async def _children(self, parent: Bundle, limit_s: float) -> list[Bundle]:
        """What the bundle has become; looked at once at least. None: it stands."""
        clock = self._parts.clock
        asked_s = clock.now_s()
        # A store that does not answer at once says nothing of the split.
        last_s = asked_s + max(limit_s, self._parts.rules().load_s)
        while True:
            try:
                ring = await self._newest_ring(parent)
            except StoreError as error:
                if not error.can_retry or clock.now_s() >= last_s:
                    raise
            else:
                if parent not in ring:
                    low, high = parent.range.low, parent.range.high
                    return [b for b in ring.bundles if low <= b.range.low and b.range.high <= high]
                if clock.now_s() >= asked_s + limit_s:
                    return []
            await asyncio.sleep(_RETRY_S)

    # What is looked at again.

    async def _newest_ring(self, bundle: Bundle) -> Ring:
        """Behind all that was committed so far."""
        path = paths.local_policies(bundle.namespace)
        await self._parts.store.sync(path)
        node = await self._parts.store.get(path)
        return await self._parts.ring_of(bundle.namespace) if node is None else decode_ring(node)

    async def _ring_with(self, bundle: Bundle) -> Ring:
        ring = await self._newest_ring(bundle)
        if bundle not in ring:
            raise BundleGone(f"{bundle} is no bundle of its namespace")
        return ring

    async def _owned_by(self, bundle: Bundle, broker_id: str) -> StandingOwner:
        owner = await newest_owner(self._parts.store, bundle)
        if owner is None or owner.broker_id != broker_id:
            whose = "nobody" if owner is None else owner.broker_id
            raise NotOwner(f"{bundle} is owned by {whose}, not by {broker_id}")
        return owner
