"""One mechanism of election, for every seat (design: what runs, and how it ends).

The seat's node is ephemeral. Its epoch is the data version of a persistent node that is written
in the same transaction as the node is created: a version of a persistent node never starts again,
so `Check(epoch_path, epoch)` in a leader's transaction proves that no other was elected since
(I3). Leading is a scope: the work is cancelled when it ends.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.leadership import Action, Event, State, step
from broker_ctl.core.session import Action as SessionAction
from broker_ctl.errors import (
    AuthorityLost,
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NodeExists,
    NoNode,
    StoreError,
)
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    MetadataStore,
    Notification,
    Operation,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.paths import Seat
from broker_ctl.store.records.ours import LeadEpoch
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.25
_MAX_PAUSE_S: Final = 30.0
_STABLE_S: Final = 300.0
_LOOK_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Leadership:
    """One leading of one seat."""

    seat: Seat
    epoch: int
    check: Callable[[], None]

    @property
    def guard(self) -> Operation:
        """Stands first in every transaction of this leader: it fails once another was elected."""
        return Check(self.seat.epoch_path, self.epoch)


class Election:
    """This broker's candidacy for one seat, in one session after another."""

    def __init__(
        self,
        store: MetadataStore,
        watcher: SessionWatcher,
        *,
        clock: Clock,
        seat: Seat,
        leader: LeaderBroker,
        draws: random.Random,
    ) -> None:
        self._store = store
        self._watcher = watcher
        self._clock = clock
        self._seat = seat
        self._own = leader
        self._draws = draws
        self._state = State.ELECTING
        self._leadership: Leadership | None = None
        self._leader: LeaderBroker | None = None
        self._czxid = 0
        self._work: asyncio.Task[None] | None = None
        self._look = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_resigning = False
        self._setbacks = 0
        self._led_since_s = 0.0

    # State.

    @property
    def state(self) -> State:
        """Where this candidate stands."""
        return self._state

    @property
    def is_resigned(self) -> bool:
        """Whether this broker stands no more."""
        return self._state is State.RESIGNED

    @property
    def leadership(self) -> Leadership | None:
        """The leading that is going on here, None while following or suspended."""
        return self._leadership if self._state is State.LEADING else None

    @property
    def leader(self) -> LeaderBroker | None:
        """Who leads, by the last read; None while nobody is known."""
        return self._leader

    def session_changed(self, action: SessionAction) -> None:
        """Hear the session watcher; without authority the leader steps down at once."""
        if action is SessionAction.CONNECTION_LOST:
            self._note(Event.CONNECTION_LOST)
        elif action is SessionAction.FENCE:
            self._note(Event.AUTHORITY_LOST)
        self._look.set()

    def _note(self, event: Event) -> None:
        """An event whose actions wait for nobody; after the resignation nothing is news."""
        if self._state is not State.RESIGNED:
            self._state, actions = step(self._state, event)
            if Action.STEP_DOWN in actions:
                self._step_down()

    # Running.

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Stand for election until cancelled or resigned; run ``lead`` while leading."""
        self._state, self._leadership, self._leader, self._czxid = State.ELECTING, None, None, 0
        stop_watching = await self._store.watch(self._seat.node_path, self._notified)
        self._ended.clear()
        try:
            async with TaskScope(f"leading {self._seat.name}") as scope:
                while not self.is_resigned:
                    self._look.clear()
                    try:
                        await self._apply(await self._news(), scope, lead)
                    except StoreError as error:
                        log.info("election of %s: %s", self._seat.name, error)
                        await asyncio.sleep(_RETRY_S)
                        continue
                    if not self.is_resigned:
                        await self._wait_news()
        finally:
            self._step_down()
            self._leader = None
            self._ended.set()
            stop_watching()

    async def resign(self) -> None:
        """Give the seat back and stand no more; the caller gives the deadline."""
        self._is_resigning = True
        self._look.set()
        await self._ended.wait()

    def _notified(self, _notification: Notification) -> None:
        self._look.set()

    async def _wait_news(self) -> None:
        try:
            # A notification may fall into a lost connection: look again now and then.
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await self._look.wait()
        except TimeoutError:
            return

    async def _news(self) -> Event:
        """One read tells where this candidate stands."""
        if self._is_resigning:
            return Event.RESIGN
        if self._state is State.LEADING and self._work is not None and self._work.done():
            return Event.FAILED
        node = await self._store.get(self._seat.node_path)
        if node is None:
            self._leader = None
            return Event.FREE
        self._leader = self._decode(node)
        is_mine = node.stat.ephemeral_owner == self._store.session_id
        return Event.MINE if is_mine and self._czxid in {0, node.stat.czxid} else Event.OTHERS

    async def _apply(
        self,
        event: Event,
        scope: TaskScope,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        before = self._state
        self._state, actions = step(before, event)
        if self._state is not before:
            log.info("seat %s: %s -> %s (%s)", self._seat.name, before, self._state, event)
        for action in actions:
            match action:
                case Action.STAND:
                    # Meanwhile another may have been elected, or our authority have ended.
                    outcome = Event.WON if await self._stand() else Event.BEATEN
                    await self._apply(outcome, scope, lead)
                case Action.LEAD:
                    assert self._leadership is not None
                    name = f"epoch {self._leadership.epoch}"
                    self._work = scope.start(self._lead(self._leadership, lead), name)
                case Action.STEP_DOWN:
                    self._step_down()
                case Action.DELETE:
                    await self._give_back()

    async def _lead(
        self,
        leadership: Leadership,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        log.info("leading %s at epoch %d", self._seat.name, leadership.epoch)
        try:
            await lead(leadership)
        finally:
            log.info("led %s at epoch %d", self._seat.name, leadership.epoch)
            self._look.set()

    def _step_down(self) -> None:
        if self._leadership is None:
            return
        is_stable = self._clock.now_s() - self._led_since_s > _STABLE_S
        self._setbacks = 0 if is_stable else self._setbacks + 1
        self._leadership, self._czxid = None, 0
        if self._work is not None:
            self._work.cancel()
        self._look.set()

    # The seat.

    async def _stand(self) -> bool:
        """Create the node under a new epoch; false when somebody was quicker."""
        await self._pause()
        if self._work is not None and not self._work.done():
            # Two leadings of one process must not overlap.
            await asyncio.wait([self._work])
        epoch = await self._store.get(self._seat.epoch_path)
        try:
            if epoch is None:
                first = LeadEpoch(0, self._own.broker_id).encode()
                epoch = await self._store.create(self._seat.epoch_path, first, make_parents=True)
            version = epoch.stat.version
            claim = LeadEpoch(version + 1, self._own.broker_id).encode()
            written, created = await self._store.multi(
                [
                    SetData(self._seat.epoch_path, claim, version),
                    Create(self._seat.node_path, self._own.encode(), CreateMode.EPHEMERAL),
                ],
            )
        except NodeExists:
            return False
        except MultiFailed as error:
            if isinstance(error.cause, NoNode):
                await self._make_parent()
            self._look.set()
            return False
        assert isinstance(written, Stat)
        assert isinstance(created, Versioned)
        try:
            self._watcher.check()
        except AuthorityLost:
            self._look.set()
            return False
        self._leader, self._czxid = self._own, created.stat.czxid
        self._led_since_s = self._clock.now_s()
        self._leadership = Leadership(self._seat, written.version, self._watcher.check)
        return True

    async def _pause(self) -> None:
        """After a setback others go first (reference 4.5: anti-flap)."""
        if self._setbacks:
            backoff_s = min(_RETRY_S * 2**self._setbacks, _MAX_PAUSE_S)
            await asyncio.sleep(backoff_s + self._draws.uniform(0, 1))

    async def _make_parent(self) -> None:
        parent = self._seat.node_path.rpartition("/")[0]
        if parent:
            try:
                await self._store.create(parent, make_parents=True)
            except NodeExists:
                return

    async def _give_back(self) -> None:
        node = await self._store.get(self._seat.node_path)
        if node is not None and node.stat.ephemeral_owner == self._store.session_id:
            try:
                await self._store.delete(node.path, node.stat.version)
            except (NoNode, BadVersion):
                log.info("%s changed while it was given back", node.path)
        self._look.set()

    def _decode(self, node: Versioned) -> LeaderBroker | None:
        try:
            return LeaderBroker.decode(node.path, node.data)
        except CorruptRecord as error:
            log.warning("skipped the leader: %s", error)
            return None
