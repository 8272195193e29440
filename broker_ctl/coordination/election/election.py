"""Leader election, for the balancer and the controller (docs: session-scope, stopping).

`core/machines/election.py` decides, this module acts, `election_node.py` is the node in the store.
A term is a scope: its work is cancelled when it ends.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.election.election_node import ElectionNode
from broker_ctl.coordination.election.election_records import ElectionRecords, LeaderRecords
from broker_ctl.coordination.election.giving_way import GivingWay
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.locks.pending_deletions import Deletions
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.election import Action, Event, State, step
from broker_ctl.core.machines.session import Action as SessionAction
from broker_ctl.errors import StoreError
from broker_ctl.retry import is_any, retry
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.paths import ElectionName
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Between two looks whether there is authority again.
_POLL_S: Final = 0.25
_LOOK_AGAIN_S: Final = 5.0


class Election:
    """This broker's candidacy in one election, over all its sessions.

    Args:
        records: payloads of the nodes; default: Pulsar's.
    """

    def __init__(
        self,
        store: MetadataStore,
        watcher: SessionWatcher,
        deletions: Deletions,
        *,
        clock: Clock,
        election_name: ElectionName,
        leader: LeaderBroker,
        rng: random.Random,
        records: ElectionRecords | None = None,
    ) -> None:
        self._node = ElectionNode(
            store, deletions, election_name, records or LeaderRecords(leader), rng=rng
        )
        self._watcher = watcher
        self._clock = clock
        self._election_name = election_name
        self._own = leader
        self._rng = rng
        self._state = State.ELECTING
        self._leadership: Leadership | None = None
        self._leader: LeaderBroker | None = None
        self._czxid = 0
        self._cuts = 0
        self._work: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._resigning = asyncio.Event()
        self._giving_way = GivingWay(clock, rng)

    # State.

    @property
    def state(self) -> State:
        """State of this candidate."""
        return self._state

    @property
    def is_resigned(self) -> bool:
        """Whether this broker has withdrawn from the election for good."""
        return self._state is State.RESIGNED

    @property
    def leadership(self) -> Leadership | None:
        """The current term of this broker; None while it follows or is suspended."""
        return self._leadership if self._state is State.LEADING else None

    @property
    def leader(self) -> LeaderBroker | None:
        """The leader by the last read; None while unknown."""
        return self._leader

    def on_session_action(self, action: SessionAction) -> None:
        """Listener of the session watcher; without authority the leader steps down at once."""
        if action is SessionAction.CONNECTION_LOST:
            self._cuts += 1
            self._on_event(Event.CONNECTION_LOST)
        elif action is SessionAction.FENCE:
            self._on_event(Event.AUTHORITY_LOST)
        self._wake.set()

    def _on_event(self, event: Event) -> None:
        """Handle an event whose actions do not wait; after resigning events are ignored."""
        if self._state is not State.RESIGNED and Action.STEP_DOWN in self._enter(event):
            self._step_down()

    def _enter(self, event: Event) -> tuple[Action, ...]:
        """Enter the next state and suspend or resume the term; returns the actions to run."""
        before = self._state
        self._state, actions = step(before, event)
        if self._state is not before:
            log.info(
                "election at %s: %s -> %s (%s)",
                self._election_name.node_path,
                before,
                self._state,
                event,
            )
        if self._leadership is not None and self._state is State.SUSPENDED:
            self._leadership.suspend()
        elif self._leadership is not None and self._state is State.LEADING:
            self._leadership.resume()
        return actions

    # Running.

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Take part until cancelled or resigned; run ``lead`` while leading."""
        self._ended.clear()
        self._state, self._leader = State.ELECTING, None
        try:
            stop_watching = await self._node.watch(self._wake.set)
            try:
                async with TaskScope(f"leading {self._election_name.name}") as scope:
                    await self._keep_looking(scope, lead)
            finally:
                stop_watching()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Queue our node for deletion: no other broker can lead while it exists."""
        self._step_down()
        self._leader = None
        if not self.is_resigned:
            self._state = State.ELECTING
        self._node.queue_deletion()
        self._ended.set()

    async def resign(self) -> None:
        """Give leadership up and withdraw for good; the caller sets the deadline."""
        self._resigning.set()
        self._wake.set()
        await self._ended.wait()

    async def _keep_looking(
        self,
        scope: TaskScope,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        async def look() -> None:
            self._wake.clear()
            if not self.is_resigned and (event := await self._next_event()) is not None:
                await self._apply(event, scope, lead)

        what = f"cannot go on with the election at {self._election_name.node_path}"
        while not self.is_resigned:
            # The watcher ends this with the session, whichever error the end may give here.
            await retry(look, what, rng=self._rng, judge=is_any(StoreError))
            if not self.is_resigned:
                # A notification may be lost with the connection, so the node is also read at an
                # interval.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await self._wake.wait()

    async def _next_event(self) -> Event | None:
        """Read the node; None if the session changed meanwhile."""
        before, cuts = self._state, self._cuts
        if self._resigning.is_set():
            return Event.RESIGN
        is_leader = before in {State.LEADING, State.SUSPENDED}
        if is_leader and self._work is not None and self._work.done():
            return Event.FAILED
        # A suspended leader reads after a sync: the node may have changed while it was
        # disconnected.
        node = await self._node.read(is_synced=before is State.SUSPENDED)
        if self._state is not before or self._cuts != cuts:
            # An answer from before the disconnection must not resume a suspended leader.
            self._wake.set()
            return None
        if node is None:
            self._leader = None
            return Event.FREE
        self._leader = self._node.leader_of(node)
        is_mine = self._node.is_ours(node)
        return Event.MINE if is_mine and self._czxid in {0, node.stat.czxid} else Event.OTHERS

    async def _apply(
        self,
        event: Event,
        scope: TaskScope,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        """Run the actions. While one of them waits, only `session_changed` changes the state.

        The actions that wait are STAND and DELETE. They run in ELECTING or RESIGNED, states that no
        session event leaves.
        """
        for action in self._enter(event):
            match action:
                case Action.CREATE:
                    outcome = Event.WON if await self._claim() else Event.BEATEN
                    await self._apply(outcome, scope, lead)
                case Action.LEAD:
                    assert self._leadership is not None
                    name = f"epoch {self._leadership.epoch}"
                    self._work = scope.start(self._lead(self._leadership, lead), name)
                case Action.STEP_DOWN:
                    self._step_down()
                case Action.DELETE:
                    await self._wait_work()
                    await self._node.delete()
                    self._giving_way.on_node_deleted()
                    self._wake.set()

    async def _lead(
        self,
        leadership: Leadership,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        log.info("elected at %s, epoch %d", self._election_name.node_path, leadership.epoch)
        try:
            await lead(leadership)
        finally:
            log.info(
                "no longer leader at %s, epoch %d", self._election_name.node_path, leadership.epoch
            )
            self._wake.set()

    def _step_down(self) -> None:
        if self._leadership is None:
            return
        self._giving_way.on_stepped_down()
        self._leadership.end()
        self._leadership, self._czxid = None, 0
        if self._work is not None:
            self._work.cancel()
        self._wake.set()

    # The node.

    async def _claim(self) -> bool:
        """Create the node under a new epoch; returns whether this broker was elected."""
        is_due = await self._wait_turn()
        # The node is read again after any outcome.
        self._wake.set()
        if not is_due:
            return False
        cuts = self._cuts
        claimed = await self._node.claim()
        # The lease may have run out, or the connection been lost, meanwhile: then the node is
        # deleted.
        if claimed is None or not self._has_authority or self._cuts != cuts:
            return False
        self._leader, self._czxid = self._own, claimed.czxid
        self._giving_way.on_elected()
        self._leadership = Leadership(self._election_name, claimed.epoch, self._watcher.check)
        return True

    @property
    def _has_authority(self) -> bool:
        return self._clock.now_s() < self._watcher.deadline_s

    async def _wait_turn(self) -> bool:
        """Wait until others have had their turn; false if it must not claim now."""
        # The queued deletion of an earlier node must not hit the new one.
        await self._node.wait_deleted_node()
        left_s = self._giving_way.left_s
        if not self._has_authority:
            # Without authority the node would only block other candidates.
            left_s = max(left_s, _POLL_S)
        if left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._wake.wait()
                return False  # another one may lead
        await self._wait_work()
        return self._has_authority and not self._resigning.is_set()

    async def _wait_work(self) -> None:
        """Wait for the end of the previous term's work: two terms must never overlap."""
        if self._work is not None and not self._work.done():
            await asyncio.wait([self._work])
